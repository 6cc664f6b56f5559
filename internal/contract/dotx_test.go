package contract_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func contractDoTx() []contractCase {
	return []contractCase{
		{name: "DoTxRecordError", run: caseTxRecordError},
		{name: "DoTxTwinWaitsInside", run: caseTxTwin},
		{name: "DoTxNoWait", run: caseTxNoWait},
		{name: "DoTxOldSnapshot", run: caseTxOldSnapshot},
		{name: "DoTxRivalPastTheLock", run: caseTxRival, locksOnly: true},
		{name: "DoTxInDo", run: caseTxInDo},
		{name: "DoTxPanics", run: caseTxPanics},
		{name: "DoTxAndDo", run: caseTxAndDo},
	}
}

// begin opens a transaction at the profile's level, on the fixture's pool. It is
// rolled back when the test ends, at the latest.
func (f *fixture) begin(t *testing.T, ctx context.Context) pgx.Tx {
	t.Helper()
	if f.profile.way == viaSQL {
		return f.beginSQL(t, ctx)
	}
	tx, err := f.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: f.profile.isolation})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(ctx)) })
	return tx
}

func requireUsable(t *testing.T, ctx context.Context, tx pgx.Tx) {
	t.Helper()
	_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ('after')`)
	require.NoError(t, err)
}

// caseTxRecordError has a trigger that lets no record in.
func caseTxRecordError(t *testing.T, p profile) {
	for _, body := range []string{`RAISE unique_violation;`, `RETURN NULL;`} {
		ctx, f := p.setup(t, nil)
		f.warm(t)
		f.trigger(t, "BEFORE", body)
		tx := f.begin(t, ctx)
		e := &tool{ref: "k"}
		_, err := f.doTx(ctx, f.d, tx, call("k"), e.run)
		require.Error(t, err)
		if p.fresh() { // else it could be a lost race
			require.ErrorIs(t, err, dedup.ErrSchema, body)
		}
		if body == `RETURN NULL;` { // noticed too late for the savepoint
			require.NoError(t, tx.Rollback(ctx))
		} else {
			requireUsable(t, ctx, tx)
			require.NoError(t, tx.Commit(ctx))
		}
		f.requireUnwritten(t, e, 1)
	}
}

// caseTxTwin has a second transaction wait for the first one's call.
func caseTxTwin(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	e := &tool{ref: "k"}
	first, second := f.begin(t, ctx), f.begin(t, ctx)
	_, err := f.doTx(ctx, f.d, first, call("k"), e.run)
	require.NoError(t, err)

	waiting := make(chan answered, 1)
	go func() {
		var a answered
		a.Result, a.err = f.doTx(ctx, f.d, second, call("k"), e.run)
		waiting <- a
	}()
	f.untilWaitingInside(t, 1)
	require.NoError(t, first.Commit(ctx))

	a := receive(t, ctx, waiting)
	if p.fresh() {
		require.True(t, a.require(t).Replayed)
		e.requireRuns(t, 1)
	} else { // its snapshot is older than the first one's commit
		require.ErrorIs(t, a.err, dedup.ErrRestartTx)
		require.True(t, dedup.IsRetryable(a.err))
		require.NoError(t, second.Rollback(ctx))
		again, err := f.doTx(ctx, f.d, f.begin(t, ctx), call("k"), e.run)
		require.NoError(t, err)
		require.True(t, again.Replayed)
	}
	require.Equal(t, 1, f.effects(t, "k"))

	// A twin that rolls back leaves the call to the one that waits.
	first, second = f.begin(t, ctx), f.begin(t, ctx)
	_, err = f.doTx(ctx, f.d, first, call("other"), e.run)
	require.NoError(t, err)
	go func() {
		var a answered
		a.Result, a.err = f.doTx(ctx, f.d, second, call("other"), e.run)
		waiting <- a
	}()
	f.untilWaitingInside(t, 1)
	require.NoError(t, first.Rollback(ctx))
	require.False(t, receive(t, ctx, waiting).require(t).Replayed)
	require.NoError(t, second.Commit(ctx))
	require.Equal(t, 2, f.effects(t, "k"))
}

func caseTxNoWait(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	e := &tool{ref: "k"}
	first, second := f.begin(t, ctx), f.begin(t, ctx)
	_, err := f.doTx(ctx, f.d, first, call("k"), e.run)
	require.NoError(t, err)
	for _, wait := range []time.Duration{-1, 5 * time.Millisecond} {
		c := call("k")
		c.MaxWait = wait
		_, err = f.doTx(ctx, f.d, second, c, e.run)
		require.ErrorIs(t, err, dedup.ErrInFlight)
	}
	var timeout string
	require.NoError(t, second.QueryRow(ctx, `SELECT current_setting('lock_timeout')`).Scan(&timeout))
	require.Equal(t, "0", timeout, "the session's own limit is back")
	requireUsable(t, ctx, second)
	require.NoError(t, second.Commit(ctx))
	require.NoError(t, first.Commit(ctx))
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 1, f.effects(t, "after"))
}

// caseTxOldSnapshot has a twin commit after the transaction took its snapshot.
func caseTxOldSnapshot(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	e := &tool{ref: "k"}
	tx := f.begin(t, ctx)
	requireUsable(t, ctx, tx)
	_, err := dedup.Do(ctx, f.peer(t), call("k"), e.run)
	require.NoError(t, err)

	result, err := f.doTx(ctx, f.d, tx, call("k"), e.run)
	if p.fresh() {
		require.NoError(t, err)
		require.True(t, result.Replayed)
	} else {
		require.ErrorIs(t, err, dedup.ErrRestartTx)
	}
	require.NoError(t, tx.Rollback(ctx))
	require.Equal(t, 1, f.effects(t, "k"))
}

// caseTxRival commits a twin while the effect runs, past the lock.
func caseTxRival(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	e := &tool{ref: "k", then: func(context.Context, pgx.Tx, int) error {
		return f.rival(ctx, call("k"), "k", ticket{ID: 99})
	}}
	tx := f.begin(t, ctx)
	result, err := f.doTx(ctx, f.d, tx, call("k"), e.run)
	if p.fresh() {
		require.NoError(t, err)
		require.True(t, result.Replayed)
		require.Equal(t, 99, result.Value.ID)
		requireUsable(t, ctx, tx)
		require.NoError(t, tx.Commit(ctx))
	} else {
		require.ErrorIs(t, err, dedup.ErrRestartTx)
		require.NoError(t, tx.Rollback(ctx))
	}
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
}

func caseTxInDo(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	inner := &tool{ref: "inner"}
	outer := &tool{ref: "outer", then: func(ctx context.Context, tx pgx.Tx, run int) error {
		result, err := f.doTx(ctx, f.d, tx, call("inner"), inner.run)
		if err != nil || result.Value.Title != "inner" {
			return fmt.Errorf("inner: %+v: %w", result, err)
		}
		if _, err := f.doTx(ctx, f.d, tx, call("outer"), inner.run); err != nil {
			require.ErrorIs(t, err, dedup.ErrInvalid)
		}
		if run == 1 {
			return errPaper
		}
		return nil
	}}
	_, err := dedup.Do(ctx, f.d, call("outer"), outer.run)
	require.ErrorIs(t, err, errPaper)
	require.Zero(t, f.records(t))
	require.Zero(t, f.effects(t, "inner"))

	_, err = dedup.Do(ctx, f.d, call("outer"), outer.run)
	require.NoError(t, err)
	require.Equal(t, 1, f.effects(t, "inner"))
	require.Equal(t, 1, f.effects(t, "outer"))
	require.Equal(t, 2, f.records(t))
	inner.requireRuns(t, 2)
}

func caseTxPanics(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	tx := f.begin(t, ctx)
	require.PanicsWithValue(t, "out of paper", func() {
		_, _ = f.doTx(ctx, f.d, tx, call("k"), (&tool{ref: "k", then: func(context.Context, pgx.Tx, int) error { panic("out of paper") }}).run)
	})
	requireUsable(t, ctx, tx)
	result, err := f.doTx(ctx, f.d, tx, call("k"), (&tool{ref: "k"}).run)
	require.NoError(t, err)
	require.False(t, result.Replayed)
	require.NoError(t, tx.Commit(ctx))
	require.Equal(t, 1, f.effects(t, "k"))
}

// caseTxAndDo has Do and Lookup meet a call that runs in a caller's
// transaction.
func caseTxAndDo(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	e := &tool{ref: "k"}
	tx := f.begin(t, ctx)
	_, err := f.doTx(ctx, f.d, tx, call("k"), e.run)
	require.NoError(t, err)

	c := call("k")
	status, err := f.d.Lookup(ctx, c.Scope, c.Tool, c.Key)
	require.NoError(t, err)
	require.Equal(t, dedup.StateInFlight, status.State)
	twin := start(ctx, f.d, c, e.run)
	require.NoError(t, f.events.untilWaiting(ctx, 0, 1))
	require.NoError(t, tx.Commit(ctx))
	result := receive(t, ctx, twin).require(t)
	require.True(t, result.Replayed)
	require.Equal(t, 1, result.Value.ID)
	require.Equal(t, 1, f.effects(t, "k"))
}

// TestDoTxManyCalls runs more calls in one transaction than it may take locks.
func TestDoTxManyCalls(t *testing.T) {
	t.Parallel()

	const calls = 270
	ctx, f := plain.setup(t, nil)
	tx := f.begin(t, ctx)
	for i := range calls {
		_, err := f.doTx(ctx, f.d, tx, call(fmt.Sprint(i)), (&tool{ref: "k"}).run)
		require.NoError(t, err)
	}
	require.Equal(t, 256, scalar[int](t, f.bundle, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE locktype = 'advisory' AND datname = current_database()`))

	// A twin of a call without a lock runs, and loses at the key.
	twin := start(ctx, f.d, call(fmt.Sprint(calls-1)), (&tool{ref: "k"}).run)
	f.untilWaitingInside(t, 1)
	require.NoError(t, tx.Commit(ctx))
	require.True(t, receive(t, ctx, twin).require(t).Replayed)
	require.Equal(t, calls, f.effects(t, "k"))
	require.Equal(t, calls, f.records(t))
}
