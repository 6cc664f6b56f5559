package arm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
	"github.com/tooldedup/dedup/proof/internal/replay/progress"
	"github.com/tooldedup/dedup/proof/internal/replay/report"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	success, refusal := &recording.Call{}, &recording.Call{IsError: true}
	for name, tt := range map[string]struct {
		write         written
		count         int
		doubled, lost int
	}{
		"Once":                   {written{call: success, acknowledged: true}, 1, 0, 0},
		"Twice":                  {written{call: success}, 2, 1, 0},
		"FiveTimes":              {written{call: success}, 5, 4, 0},
		"Never":                  {written{call: success}, 0, 0, 1},
		"NeverButAcknowledged":   {written{call: success, acknowledged: true}, 0, 0, 1},
		"Refused":                {written{call: refusal}, 0, 0, 0},
		"RefusedButDone":         {written{call: refusal}, 1, 1, 0},
		"RefusedButAcknowledged": {written{call: refusal, acknowledged: true}, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &sessionRun{run: &run{}, session: &recording.Session{}}
			tt.write.ref = "ref"
			s.writes = []*written{&tt.write}
			s.audit(map[string]int{"ref": tt.count})
			got := s.tally.result()
			require.Equal(t, []int{tt.doubled, tt.lost, tt.count}, []int{got.Doubled, got.Lost, got.Checked.Effects})
		})
	}

	t.Run("Stray", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		s := &sessionRun{run: &run{Config: Config{Verbose: true, Display: progress.New(&out)}}, session: &recording.Session{ID: "s"}}
		s.audit(map[string]int{"unknown": 2})
		require.Equal(t, 2, s.tally.result().Doubled)
		require.Equal(t, "unknown: 2 effects of a call that is no write\n", out.String())
	})
}

// TestCheckComplete shows that a reading that is empty is a failure.
func TestCheckComplete(t *testing.T) {
	t.Parallel()
	rec, err := recording.Small()
	require.NoError(t, err)
	whole := report.Result{
		Mode: "dedup", Sessions: 6, Calls: 30, Writes: 20, Deliveries: 20,
		Checked: report.Checked{Answers: 29, Effects: 16, States: 6, Records: 20},
	}
	require.NoError(t, checkComplete(rec, &whole))
	require.Error(t, checkComplete(rec, &report.Result{}))
	require.Error(t, checkComplete(&recording.Recording{}, &whole))

	for i, spoil := range []func(*report.Result){
		func(r *report.Result) { r.Sessions = 5 },
		func(r *report.Result) { r.Checked.States = 5 },
		func(r *report.Result) { r.Writes = 19 },
		func(r *report.Result) { r.Calls = 0 },
		func(r *report.Result) { r.Deliveries = 19 },
		func(r *report.Result) { r.Checked.Answers = 28 },
		func(r *report.Result) { r.Checked.Effects = 0 },
		func(r *report.Result) { r.Checked.Records = 19 },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			spoiled := whole
			spoil(&spoiled)
			require.Error(t, checkComplete(rec, &spoiled))
		})
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	h := newHistory()
	call := func(session, id, args string) *recording.Call {
		return &recording.Call{Session: session, ToolCallID: id, Tool: "book", Arguments: []byte(args)}
	}
	require.False(t, h.add(call("s", "1", `{"a":1,"b":2}`)))
	require.True(t, h.add(call("s", "2", `{"b": 2, "a": 1.0}`)), "arguments are compared by value")
	require.False(t, h.add(call("s", "1", `{"a":2}`)))
	require.False(t, h.add(call("other", "1", `{"a":2}`)))
	require.Equal(t, 2, h.reused)
}

func TestTallyRounds(t *testing.T) {
	t.Parallel()
	var tl tally
	for _, size := range []int{1, 2, 8, 8} {
		tl.round(plan.Round{Workers: make([]int, size)}, map[plan.Kind]int{plan.Kill: 1})
	}
	got := tl.result()
	require.Equal(t, report.Rounds{Single: 1, Twins2: 1, Twins8: 2}, got.Rounds)
	require.Equal(t, 4, got.Faults[plan.Kill])
	require.Equal(t, 4, got.FaultsTotal)
}
