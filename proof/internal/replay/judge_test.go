package replay

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/recording"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	success, refusal := &recording.Call{}, &recording.Call{IsError: true}
	type answers = map[int64]int
	for name, tt := range map[string]struct {
		call                 *recording.Call
		answered             answers // by entry
		entries              []int64
		doubled, lost, wrong int
	}{
		"Once":                   {success, answers{4: 3}, []int64{4}, 0, 0, 0},
		"Twice":                  {success, answers{4: 1}, []int64{4, 5}, 1, 0, 0},
		"TwiceAndTold":           {success, answers{4: 1, 5: 2}, []int64{4, 5}, 1, 0, 2},
		"FiveTimes":              {success, nil, []int64{1, 2, 3, 4, 5}, 4, 0, 0},
		"Never":                  {success, nil, nil, 0, 1, 0},
		"NeverButAnswered":       {success, answers{4: 2}, nil, 0, 1, 2},
		"RolledBackAndTold":      {success, answers{4: 1}, []int64{5}, 0, 0, 1},
		"NoEntryTold":            {success, answers{0: 2}, []int64{5}, 0, 0, 2},
		"Refused":                {refusal, nil, nil, 0, 0, 0},
		"RefusedButDone":         {refusal, nil, []int64{4}, 1, 0, 0},
		"RefusedButAcknowledged": {refusal, answers{4: 1}, nil, 0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &session{play: &play{flags: &flags{}}, recorded: &recording.Session{}}
			s.writes = []*written{{call: tt.call, ref: "ref", answered: tt.answered}}
			s.audit(map[string][]int64{"ref": tt.entries})
			got := s.result
			require.Equal(t, []int{tt.doubled, tt.lost, tt.wrong, len(tt.entries)}, []int{got.Doubled, got.Lost, got.Wrong, got.Checked.Effects})
		})
	}
}

// TestCheckComplete shows that an empty reading is a failure.
func TestCheckComplete(t *testing.T) {
	t.Parallel()
	rec, err := recording.Small()
	require.NoError(t, err)
	whole := result{
		Mode: "dedup", Sessions: 6, Calls: 30, Writes: 20, Deliveries: 20,
		Checked: checked{Answers: 29, Effects: 16, Records: 20},
	}
	require.NoError(t, checkComplete(rec, &whole))
	require.Error(t, checkComplete(rec, &result{}))
	require.Error(t, checkComplete(&recording.Recording{}, &whole))

	for i, spoil := range []func(*result){
		func(r *result) { r.Sessions = 5 },
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
