package external_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

func TestAccept(t *testing.T) {
	f := newFixture(t)
	p := newProvider()
	var jobs []string
	tools, err := external.New(f.d, &external.Options{Lease: lease, Enqueue: func(_ context.Context, _ pgx.Tx, op external.Operation) error {
		jobs = append(jobs, op.Key)
		return nil
	}})
	require.NoError(t, err)
	f.tools = tools
	h := add(f, ledger(f, external.Tool[in, out]{Perform: func(_ context.Context, a external.Attempt, i in) (out, error) { return p.act("", i.Order), nil }}))
	accept := func(key string, order int) (external.Operation, error) {
		var op external.Operation
		err := pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) (err error) {
			op, err = h.Accept(f.ctx, tx, call(key), in{order})
			return err
		})
		return op, err
	}
	op, err := accept("k", 1)
	require.NoError(t, err)
	require.Equal(t, external.Pending, op.State)
	require.Zero(t, p.effects())
	_, err = accept("k", 1)
	require.NoError(t, err)
	require.Equal(t, []string{"k"}, jobs)
	_, err = accept("k", 2)
	require.ErrorIs(t, err, dedup.ErrKeyReused)

	op, err = tools.Advance(f.ctx, "acme", "charge", "k")
	require.NoError(t, err)
	require.Equal(t, external.Done, op.State)
	op, err = accept("k", 1)
	require.NoError(t, err)
	require.Equal(t, external.Done, op.State)
	require.Equal(t, []string{"begin 1", "finish ch_1"}, f.ledger())
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.True(t, result.Replayed)
}

// TestAcceptOfAClaim meets an operation that somebody else has not committed yet: the
// caller's transaction stays usable, with its own lock_timeout.
func TestAcceptOfAClaim(t *testing.T) {
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) { return out{"ch_1"}, nil }})
	first, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	_, err = h.Accept(f.ctx, first, call("k"), in{1})
	require.NoError(t, err)

	second, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	_, err = second.Exec(f.ctx, `SET LOCAL lock_timeout = '7s'`)
	require.NoError(t, err)
	_, err = h.Accept(f.ctx, second, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	var timeout string
	require.NoError(t, second.QueryRow(f.ctx, `SELECT current_setting('lock_timeout')`).Scan(&timeout))
	require.Equal(t, "7s", timeout)
	_, err = h.Accept(f.ctx, second, call("other"), in{1})
	require.NoError(t, err)
	require.NoError(t, second.QueryRow(f.ctx, `SELECT current_setting('lock_timeout')`).Scan(&timeout))
	require.Equal(t, "7s", timeout)
	require.NoError(t, second.Commit(f.ctx))

	impatient := call("k")
	impatient.MaxWait = -1
	_, err = h.Do(f.ctx, impatient, in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.NoError(t, first.Rollback(f.ctx))
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
}

// TestAcceptAtAnOldSnapshot meets an operation that was accepted after the transaction had
// begun to read.
func TestAcceptAtAnOldSnapshot(t *testing.T) {
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) { return out{"ch_1"}, nil }})
	old, err := f.pool.BeginTx(f.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = old.Rollback(f.ctx) }()
	_, err = old.Exec(f.ctx, `SELECT 1`)
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
		_, err := h.Accept(f.ctx, tx, call("k"), in{1})
		return err
	}))
	_, err = h.Accept(f.ctx, old, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrRestartTx)
}
