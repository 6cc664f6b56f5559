package replay

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/recording"
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
			s := &session{play: &play{flags: &flags{}}, recorded: &recording.Session{}}
			tt.write.ref = "ref"
			s.writes = []*written{&tt.write}
			s.audit(map[string]int{"ref": tt.count})
			got := s.result
			require.Equal(t, []int{tt.doubled, tt.lost, tt.count}, []int{got.Doubled, got.Lost, got.Checked.Effects})
		})
	}

	t.Run("Stray", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		s := &session{play: &play{flags: &flags{verbose: true}, console: &console{out: &out}}, recorded: &recording.Session{ID: "s"}}
		s.audit(map[string]int{"unknown": 2})
		require.Equal(t, 2, s.result.Doubled)
		require.Equal(t, "s: 2 effects of calls that are no write\n", out.String())
	})
}

// TestCheckComplete shows that a reading that is empty is a failure.
func TestCheckComplete(t *testing.T) {
	t.Parallel()
	rec, err := recording.Small()
	require.NoError(t, err)
	whole := result{
		Mode: "dedup", Sessions: 6, Calls: 30, Writes: 20, Deliveries: 20,
		Checked: checked{Answers: 29, Effects: 16, States: 6, Records: 20},
	}
	require.NoError(t, checkComplete(rec, &whole))
	require.Error(t, checkComplete(rec, &result{}))
	require.Error(t, checkComplete(&recording.Recording{}, &whole))

	for i, spoil := range []func(*result){
		func(r *result) { r.Sessions = 5 },
		func(r *result) { r.Checked.States = 5 },
		func(r *result) { r.Writes = 19 },
		func(r *result) { r.Calls = 0 },
		func(r *result) { r.Deliveries = 19 },
		func(r *result) { r.Checked.Answers = 28 },
		func(r *result) { r.Checked.Effects = 0 },
		func(r *result) { r.Checked.Records = 19 },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			spoiled := whole
			spoil(&spoiled)
			require.Error(t, checkComplete(rec, &spoiled))
		})
	}
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	p := &play{ids: map[string]bool{}, intents: map[string]bool{}}
	call := func(session, id, args string) *recording.Call {
		return &recording.Call{Session: session, ToolCallID: id, Tool: "book", Arguments: []byte(args)}
	}
	require.False(t, p.repeats(call("s", "1", `{"a":1,"b":2}`)))
	require.True(t, p.repeats(call("s", "2", `{"b": 2, "a": 1.0}`)), "arguments are compared by value")
	require.False(t, p.repeats(call("s", "1", `{"a":2}`)))
	require.False(t, p.repeats(call("other", "1", `{"a":2}`)))
	require.Equal(t, 2, p.result.ReusedIDs)
}

func TestRoundsBySize(t *testing.T) {
	t.Parallel()
	var r rounds
	for _, size := range []int{1, 2, 8, 8} {
		r.count(size)
	}
	require.Equal(t, rounds{Single: 1, Twins2: 1, Twins8: 2}, r)
}
