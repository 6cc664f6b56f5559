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

// TestLookThatFailsDoesNotCount is a parked call that the provider cannot be asked for a
// while: it is looked up until a look succeeds, and still says why it is parked.
func TestLookThatFailsDoesNotCount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	looks := 0
	h := add(f, external.Tool[in, out]{
		Perform: losing,
		Find: func(_ context.Context, _ external.Attempt, i in) ([]out, error) {
			if looks++; looks > 1 && looks < 7 {
				return nil, errLost
			}
			return p.find(i.Order), nil
		},
	})
	var parked *external.ParkedError
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	p.act("", 1)
	for range 5 {
		f.untilDue(f.lookup("k"))
		op := f.advance("k")
		require.Equal(t, external.Parked, op.State)
		require.Equal(t, parked.Operation.Note, op.Note)
		require.Less(t, op.Due.Sub(op.Now), 10*lease, "the next look comes as soon as this one did")
	}
	f.until("k", external.Done)
	require.Equal(t, 7, looks)
	require.Equal(t, 1, f.steps.count(external.EventFound))
}

// TestLookThatIsCutOffDoesNotCount is a parked call whose look does not come to its end, as
// where its process dies: the next one comes as if it had not been begun.
func TestLookThatIsCutOffDoesNotCount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var cutOff bool
	h := add(f, external.Tool[in, out]{
		Perform: losing,
		Find: func(ctx context.Context, _ external.Attempt, _ in) ([]out, error) {
			if !cutOff {
				return nil, nil
			}
			_, err := f.pool.Exec(ctx, `UPDATE tool_effect SET due_at = clock_timestamp(), fence = nextval('tool_effect_fence')`)
			return nil, err
		},
	})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
	f.untilDue(f.lookup("k"))
	for _, cutOff = range []bool{true, true, false} {
		f.advance("k")
	}
	op := f.lookup("k")
	leases := float64(op.Due.Sub(op.Now)) / float64(lease)
	require.LessOrEqual(t, leases, 20.0, "leases until the second look")
	require.Greater(t, leases, 2.0)
}

// TestLookThatHangs is a Find that heeds no context. It is left behind, as one that has failed.
func TestLookThatHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	looks := 0
	h := add(f, external.Tool[in, out]{
		Timeout: time.Nanosecond, // it is over before a look begins
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
	for ; op.Note != errLost.Error(); op = f.lookup("k") { // the caller does not wait for what an attempt past its Timeout writes
		require.NoError(t, ctx.Err())
	}
	f.untilDue(op)
	op, err = f.tools.Advance(ctx, "acme", "charge", "k")
	require.NoError(t, err)
	require.Equal(t, external.Running, op.State)
	require.Contains(t, op.Note, "Timeout has passed")
}

// TestOneProcessAudits is the look after an answer that relied on a look. While a process is at it, the
// operation is not due, and another process does not look.
func TestOneProcessAudits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := process(t, f.pool)
	attempts, audits := 0, 0
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
			if op.State != external.Done {
				return nil, nil
			}
			if audits++; audits > 1 {
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
	require.Equal(t, 1, audits)
	require.Equal(t, "ch_1", op.Twice)
	require.Zero(t, op.Due)
}
