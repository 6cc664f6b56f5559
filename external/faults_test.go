package external_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestForgettingFails is an identity that could be used anew, if its old row could be
// deleted. A call says so, and does not try for ever.
func TestForgettingFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	f.exec(`DELETE FROM tool_dedup; UPDATE tool_effect SET forget_at = now()`)
	on(f, "DELETE", "", "42501")
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	_, err = h.Do(ctx, call("k"), in{1})
	require.Error(t, err)
	require.NoError(t, ctx.Err())
	require.ErrorContains(t, err, "a fault")
}

// TestClaimIsSwallowed is a table that takes no rows: a call ends within its MaxWait, and
// does not ask all the time.
func TestClaimIsSwallowed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	on(f, "INSERT", "", "")
	c := call("k")
	c.MaxWait = lease / 4
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	_, err := h.Do(ctx, c, in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.NoError(t, ctx.Err())
	var asked int
	require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT last_value FROM faults`).Scan(&asked))
	require.Less(t, asked, 50)
}

// TestReleaseMeetsAFault is an attempt that had no effect, while the database is away for a
// moment: it is attempted again, and not parked.
func TestReleaseMeetsAFault(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tries := 0
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		if tries++; tries == 1 {
			return out{}, external.NotDone(errors.New("429"))
		}
		return out{"ch_1"}, nil
	}})
	failOnce(f, "NEW.state = 'pending'")
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, "ch_1", result.Value.ID)
}

// TestCloseBehindAClaim closes a process whose claim is on its way: what it has claimed and
// not begun is attempted by another process, and not parked.
func TestCloseBehindAClaim(t *testing.T) {
	t.Parallel()
	f, proxy := proxied(t, nil)
	tool := external.Tool[in, out]{Perform: answering("ch_1")}
	h := add(f, tool)
	closes := sync.OnceFunc(func() { require.NoError(t, f.tools.Close(f.ctx)) })
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: func(u faultproxy.Unit) bool {
		if claiming(u) {
			closes()
		}
		return false
	}})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	result, err := add(process(t, f.pool), tool).Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, "ch_1", result.Value.ID)
}

// TestRecoverGoesOn has a tool whose answers nobody can record for now, as many as Recover
// has workers: others are advanced all the same.
func TestRecoverGoesOn(t *testing.T) {
	t.Parallel()
	f := processWith(t, pgtest.New(t).Pool(t), &external.Options{Lease: lease, Workers: 1})
	stuck := add(f, external.Tool[in, out]{
		Name: "stuck", Perform: answering("ch_1"),
		Finish: func(context.Context, pgx.Tx, in, out) error { return context.DeadlineExceeded },
	})
	fine := add(f, external.Tool[in, out]{Perform: answering("ch_2")})
	for _, h := range []*external.Handle[in, out]{stuck, fine} {
		accept(f, h, "k", 1)
	}
	ctx, stop := context.WithTimeout(f.ctx, 30*time.Second)
	defer stop()
	var recovered sync.WaitGroup
	recovered.Go(func() { require.NoError(t, f.tools.Recover(ctx)) })
	parked := func() bool {
		status, err := f.tools.Status(f.ctx, "acme", "stuck", "k")
		require.NoError(t, err)
		return status.Operation.State == external.Parked
	}
	for ctx.Err() == nil && (f.lookup("k").State != external.Done || !parked()) {
		continue
	}
	stop()
	recovered.Wait()
	require.Equal(t, external.Done, f.lookup("k").State)
	status, err := f.tools.Status(f.ctx, "acme", "stuck", "k")
	require.NoError(t, err)
	op := status.Operation
	require.Equal(t, external.Parked, op.State)
	require.Equal(t, "ch_1", op.Ref)
}
