package contract_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// What a record may wait for when it is written: a lock on the whole table, such as that of
// CREATE INDEX, or a twin that does not hold the identity's lock.

// beside begins a transaction on another connection, without taking any lock.
func (f *fixture) beside(t *testing.T) pgx.Tx {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.db.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	return tx
}

const (
	lockTable = `LOCK TABLE tool_dedup IN SHARE MODE`
	// impatient is for the transaction of an effect: its record waits no longer either. Citus
	// passes it on to the nodes where the record is written, if it is told to.
	impatient = `SET LOCAL citus.propagate_set_commands = 'local'; SET LOCAL lock_timeout = '20ms'`
)

// locking has another transaction lock the table when an effect runs for the first time.
func locking(beside pgx.Tx) func(context.Context, pgx.Tx, int) error {
	return func(ctx context.Context, tx pgx.Tx, run int) error {
		_, err := tx.Exec(ctx, impatient)
		if run == 1 && err == nil {
			_, err = beside.Exec(ctx, lockTable)
		}
		return err
	}
}

// waits are a MaxWait of each kind.
var waits = []time.Duration{math.MinInt64, -1, 0, 10 * time.Second, time.Hour, math.MaxInt64}

// caseTableLocked locks the table on another connection while the effect runs. A locked table is
// not a twin.
func caseTableLocked(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	for _, wait := range waits {
		c := call(fmt.Sprint(wait))
		c.MaxWait = wait
		beside, met := f.beside(t), len(events[dedup.RetriedData](f.events))
		e := &tool{ref: c.Key, then: locking(beside)}
		pending := f.start(ctx, f.d, c, e.run)
		require.NoError(t, f.events.until(ctx, func(all []any) bool { return len(ofType[dedup.RetriedData](all)) > met }))
		require.NoError(t, beside.Rollback(ctx))
		result := receive(t, ctx, pending).require(t)
		require.False(t, result.Replayed)
		require.Zero(t, result.Waited, "there was no twin")
		require.GreaterOrEqual(t, result.Attempts, 2)
		require.Equal(t, 1, f.effects(t, c.Key))
	}
	require.Empty(t, events[dedup.WaitStartData](f.events))
}

// caseTableStaysLocked is a fault, and not a twin in flight.
func caseTableStaysLocked(t *testing.T, p profile) {
	ctx, f := p.setup(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond}})
	for _, wait := range waits {
		c := call(fmt.Sprint(wait))
		c.MaxWait = wait
		beside := f.beside(t)
		result, err := f.do(ctx, f.d, c, (&tool{ref: "k", then: locking(beside)}).run)
		require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
		requireState(t, err, "55P03")
		require.Zero(t, result.Waited)
		require.NoError(t, beside.Rollback(ctx))

		beside = f.beside(t)
		tx := f.begin(t, ctx)
		result, err = f.doTx(ctx, f.d, tx, c, (&tool{ref: "k", then: locking(beside)}).run)
		require.ErrorIs(t, err, dedup.ErrRestartTx)
		requireState(t, err, "55P03")
		require.Zero(t, result.Waited)
		requireUsable(t, ctx, tx)
		require.NoError(t, tx.Rollback(ctx))
		require.NoError(t, beside.Rollback(ctx))
	}
	require.Zero(t, f.effects(t, "k"))
}

// insertRecord writes the record of a call as a twin does that has not committed yet.
func insertRecord(ctx context.Context, tx pgx.Tx, c dedup.Call) error {
	fingerprint, err := dedup.FingerprintOf(c.Args)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
		VALUES ($1, $2, $3, $4, 'done', '{"id": 99}', now(), now() + interval '1 hour', now() + interval '2 hours')`, c.Scope, c.Tool, c.Key, fingerprint[:])
	return err
}

// caseTwinPastTheLock has a twin without the lock write its record while the effect runs, and
// commit once it is waited for.
func caseTwinPastTheLock(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	for _, wait := range waits {
		c := call(fmt.Sprint(wait))
		c.MaxWait = wait
		beside, met := f.beside(t), len(events[dedup.WaitStartData](f.events))
		e := &tool{ref: c.Key, then: func(ctx context.Context, tx pgx.Tx, run int) error {
			_, err := tx.Exec(ctx, impatient)
			if run == 1 && err == nil {
				err = insertRecord(ctx, beside, c)
			}
			return err
		}}
		pending := f.start(ctx, f.d, c, e.run)
		if wait < 0 {
			a := receive(t, ctx, pending)
			require.ErrorIs(t, a.err, dedup.ErrInFlight)
			e.requireRuns(t, 1)

			tx := f.begin(t, ctx)
			result, err := f.doTx(ctx, f.d, tx, c, e.run)
			require.ErrorIs(t, err, dedup.ErrInFlight)
			require.Positive(t, result.Waited)
			requireUsable(t, ctx, tx)
			require.NoError(t, tx.Rollback(ctx))
			require.NoError(t, beside.Rollback(ctx))
			continue
		}
		require.NoError(t, f.events.until(ctx, func(all []any) bool { return len(ofType[dedup.WaitStartData](all)) > met }))
		require.NoError(t, beside.Commit(ctx))
		result := receive(t, ctx, pending).require(t)
		require.True(t, result.Replayed)
		require.Equal(t, 99, result.Value.ID)
		require.Positive(t, result.Waited)
		require.Less(t, result.Waited, limit)
		require.Zero(t, f.effects(t, c.Key))
	}
}

// TestPreparingMeetsALock has calls prepare their statements while the table is locked: the
// connection is new. MaxWait bounds that wait too. The session's own limit is restored. A look that
// finds the record prepares nothing that the lock excludes.
func TestPreparingMeetsALock(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		_, err := byDo(ctx, f.d, call("recorded"))
		require.NoError(t, err)
		beside := f.beside(t)
		_, err = beside.Exec(ctx, lockTable)
		require.NoError(t, err)
		d := newDeduper(t, f.db.Pool(t, append(f.conf, poolOfOne)...), &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond}})
		pool := f.db.Pool(t, append(f.conf, poolOfOne)...)
		inCallers := func(ctx context.Context, d *dedup.Deduper, c dedup.Call) (result dedup.Result[ticket], err error) {
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				result, err = dedup.DoTx(ctx, d, tx, c, effect(c.Key))
				return err
			})
			return result, err
		}
		replayed, err := byDo(ctx, d, lookFirst("recorded"))
		require.NoError(t, err)
		require.True(t, replayed.Replayed)
		for name, do := range map[string]way{"Do": byDo, "DoStatement": byStatement, "DoBatch": byBatchOfTwo, "BeginFunc": byTx, "DoTx": inCallers} {
			c := call(name)
			c.MaxWait = -1
			_, err = do(ctx, d, c)
			require.True(t, dedup.IsRetryable(err), "%s: %v", name, err)
			require.NotErrorIs(t, err, dedup.ErrInFlight, name)
			requireState(t, err, "55P03")
		}
		require.NoError(t, beside.Rollback(ctx))
		var own string
		require.NoError(t, pool.QueryRow(ctx, `SHOW lock_timeout`).Scan(&own))
		require.Equal(t, "0", own)
		require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			c := call("after")
			c.MaxWait = -1
			if _, err := dedup.DoTx(ctx, d, tx, c, effect(c.Key)); err != nil {
				return err
			}
			return tx.QueryRow(ctx, `SHOW lock_timeout`).Scan(&own)
		}))
		require.Equal(t, "0", own)
	})
}
