package external_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// TestLooksThatDoNotCount interrupts look-ups for a parked call: the provider fails, the process
// dies, or a release cannot read the input. The next look-up comes as if the interrupted one had
// not begun. The operation keeps its note and its ChangedAt.
func TestLooksThatDoNotCount(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	for name, outage := range map[string]struct {
		fence bool // another process takes over before the look-up has ended
		newer bool // the looking release cannot read the input
	}{"Fails": {}, "CutOff": {fence: true}, "Unreadable": {newer: true}} {
		f := process(t, shared.pool)
		s := &script{attempts: []answer{fails(errLost)}, looks: []answer{is()}}
		tool := s.tool(external.Tool[in, out]{})
		look, down := tool.Find, false
		tool.Find = func(ctx context.Context, a external.Attempt, i in) ([]out, error) {
			if outage.fence && down {
				f.exec(`UPDATE tool_effect SET due_at = clock_timestamp(), fence = fence + 1 WHERE key = $1`, name)
			}
			return look(ctx, a, i)
		}
		_, err := add(f, tool).Do(f.ctx, call(name), in{1})
		parked := f.parkedBy(err, "not found")
		looks := process(t, shared.pool)
		if outage.newer {
			addRelease[renamed](looks)
		} else {
			looks = f
		}
		down = true
		if !outage.fence {
			s.looks = []answer{fails(errLost)}
		}
		for range 5 {
			looks.untilDue(looks.lookup(name))
			op := looks.advance(name)
			require.Equal(t, external.StateParked, op.State)
			require.Equal(t, parked.Note, op.Note)
			require.Equal(t, parked.ChangedAt, op.ChangedAt)
			require.NotEqual(t, parked.Fence, op.Fence)
			require.Less(t, op.Due.Sub(op.Now), 10*lease, "the next look comes as soon as this one did")
		}
		f.exec(`UPDATE tool_effect SET changed_at = changed_at - interval '1 hour' WHERE key = $1`, name)
		parked.ChangedAt = parked.ChangedAt.Add(-time.Hour)
		looks.untilDue(looks.lookup(name))
		op := looks.advance(name)
		if !outage.fence {
			require.Equal(t, 20*lease, nextAct(op), "in a long outage")
		}
		down, s.looks = false, []answer{is()}
		f.untilDue(f.lookup(name))
		op = f.advance(name)
		require.Equal(t, parked.ChangedAt, op.ChangedAt)
		require.InDelta(t, 20, float64(op.Due.Sub(op.Now))/float64(lease), 1, "leases until the second look that counts")
		s.looks = []answer{is("ch_1")}
		f.until(name, external.StateDone)
		require.Equal(t, 1, f.steps.count(external.EventFound))
	}
}

// TestLookThatHangs has a Find that ignores its context. It is abandoned and counts as failed.
func TestLookThatHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	looks := 0
	h := add(f, external.Tool[in, out]{
		Timeout: time.Nanosecond, // ends before a look-up begins
		Perform: losing,
		Find: func(context.Context, external.Attempt, in) ([]out, error) {
			if looks++; looks == 1 {
				<-hold
			}
			return []out{{"ch_1"}}, nil
		},
	})
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	_, err := h.Do(ctx, impatient("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	op := f.lookup("k")
	for ; op.Note != errLost.Error(); op = f.lookup("k") { // the call does not wait for the writes of an attempt past its Timeout
		require.NoError(t, ctx.Err())
	}
	f.untilDue(op)
	op, err = f.tools.Advance(ctx, "acme", "charge", "k")
	require.NoError(t, err)
	require.Equal(t, external.StateRunning, op.State)
	require.Contains(t, op.Note, "Timeout has passed")
}

// TestOneProcessRechecks rechecks an answer that relied on a look-up. Meanwhile the operation is
// not due, and no other process looks.
func TestOneProcessRechecks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := process(t, f.pool)
	attempts, rechecks := 0, 0
	tool := external.Tool[in, out]{
		Settles: 1,
		Perform: func(context.Context, external.Attempt, in) (out, error) {
			if attempts++; attempts == 1 {
				return out{}, errLost
			}
			return out{"ch_2"}, nil
		},
		Find: func(ctx context.Context, _ external.Attempt, _ in) ([]out, error) {
			op := f.lookup("k")
			if op.State != external.StateDone {
				return nil, nil
			}
			if rechecks++; rechecks > 1 {
				return nil, errors.New("somebody else looks")
			}
			require.True(t, op.Due.After(op.Now), "it is due for others")
			_, err := other.tools.Advance(ctx, "acme", "charge", "k")
			return []out{{"ch_1"}, {"ch_2"}}, err
		},
	}
	h := add(f, tool)
	add(other, tool)
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	f.untilDue(f.lookup("k"))
	op := f.advance("k")
	require.Equal(t, 1, rechecks)
	require.Equal(t, "ch_1", op.Twice)
	require.Zero(t, op.Due)
}

// TestKeyIsFreeAfterTheRecheck has a record forgotten while its recheck is due. The key is blocked
// and listed until then, and a call makes the recheck itself.
func TestKeyIsFreeAfterTheRecheck(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := &script{attempts: []answer{fails(errLost), is("ch_1")}, looks: []answer{is()}}
	h := add(f, s.tool(external.Tool[in, out]{Settles: time.Millisecond}))
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	s.looks, s.looked = []answer{fails(errors.New("503")), fails(errors.New("503"))}, 0 // a slow machine looks twice
	f.exec(`DELETE FROM tool_dedup`)
	f.exec(`UPDATE tool_effect SET forget_at = clock_timestamp(), due_at = clock_timestamp()`)
	_, err = h.Do(f.ctx, call("k"), in{2}) // its look-up fails
	var parked *external.ParkedError
	require.ErrorAs(t, err, &parked)
	require.Contains(t, parked.Operation.Note, "the key is free after a look-up at the provider")
	open, err := f.tools.Open(f.ctx, f.pool, external.List{Limit: 10})
	require.NoError(t, err)
	require.Len(t, open, 1)
	f.untilDue(open[0])
	s.looks, s.looked = []answer{is("ch_1")}, 0
	result, err := h.Do(f.ctx, call("k"), in{2})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	sent, _ := s.count()
	require.Equal(t, 3, sent)
}
