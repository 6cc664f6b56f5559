package dedup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

func TestResetForgottenClaimFirst(t *testing.T) {
	t.Parallel()
	ctx, f := variant{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}.setup(t, nil)
	_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	f.age(t, "k", "100 days")
	freed, err := f.d.Reset(ctx, "acme", "create_ticket", "k", "wrong answer")
	require.NoError(t, err)
	require.True(t, freed)
	require.Zero(t, f.records(t))
}

func TestBrokenInTxClaimFirst(t *testing.T) {
	t.Parallel()
	ctx, f := variant{order: dedup.ClaimFirst, isolation: pgx.ReadCommitted}.setup(t, &dedup.Options{CommitTimeout: time.Second}, poolOfOne)
	f.warm(t)
	_, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Conn().Exec(ctx, "commit")
		return ticket{}, err
	})
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.NotContains(t, err.Error(), "could not be recorded")
}

func TestPermissionDeniedInTx(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, &dedup.Options{Schema: "hidden"})
		role := pgx.Identifier{"nobody_" + f.db.Name[:24]}.Sanitize()
		f.exec(t, `CREATE SCHEMA hidden`)
		f.exec(t, `ALTER TABLE tool_dedup SET SCHEMA hidden`)
		f.exec(t, `CREATE ROLE `+role)
		t.Cleanup(func() { _, _ = f.pool.Exec(context.WithoutCancel(ctx), `DROP ROLE `+role) })
		tx := f.begin(t, ctx)
		_, err := tx.Exec(ctx, `SET LOCAL ROLE `+role)
		require.NoError(t, err)
		_, err = dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
		// pgx prepares before the savepoint is set, so nothing can be saved; but
		// the caller is told.
		require.ErrorContains(t, err, "roll it back")
		require.ErrorContains(t, err, "migrations.Check")
	})
}

// spoiled is a pool of one whose connection is given back with LATIN1.
func spoiled(config *pgxpool.Config) {
	config.MaxConns = 1
	config.AfterRelease = func(conn *pgx.Conn) bool {
		_, err := conn.Exec(context.Background(), `SET client_encoding = 'LATIN1'`)
		return err == nil
	}
}

func TestResetOnSpoiledSession(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, v variant) {
		ctx, f := v.setup(t, nil)
		_, err := dedup.Do(ctx, f.d, call(accented), effect("k"))
		require.NoError(t, err)
		d := newDeduper(t, f.db.Pool(t, spoiled), &f.opts)
		freed, err := d.Reset(ctx, "acme", "create_ticket", accented, "wrong")
		require.NoError(t, err)
		require.True(t, freed)
	})
}

func TestSweepOnSpoiledSession(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	_, err := dedup.Do(ctx, f.d, call(accented), effect("k"))
	require.NoError(t, err)
	f.age(t, accented, "100 days")
	pool := f.db.Pool(t, poolOfOne)
	_, err = pool.Exec(ctx, `SET client_encoding = 'LATIN1'`)
	require.NoError(t, err)
	_, err = newDeduper(t, pool, nil).Sweep(ctx, &dedup.SweepOptions{Archive: func(_ context.Context, _ pgx.Tx, batch []dedup.SweptRecord) error {
		require.Equal(t, accented, batch[0].Key)
		return nil
	}})
	require.NoError(t, err)
}

func TestCommitThroughRowsConn(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		rows, err := tx.Query(ctx, "select 1")
		if err != nil {
			return err
		}
		conn := rows.Conn()
		rows.Close()
		if _, err = conn.Exec(ctx, "commit; begin"); err != nil {
			return err
		}
		return errPaper
	}}
	for range 2 {
		_, err := dedup.Do(ctx, f.d, call("k"), e.run)
		t.Log(err)
	}
	require.Equal(t, 1, f.effects(t, "k"))
}

type connTaker struct{ conn *pgx.Conn }

func (c *connTaker) ScanRow(rows pgx.Rows) error { c.conn = rows.Conn(); return nil }

// The other ways to the connection that the guard does not stand before.
func TestCommitThroughOtherConns(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(ctx context.Context, tx pgx.Tx) (*pgx.Conn, error){
		"RowsOfBatch": func(ctx context.Context, tx pgx.Tx) (*pgx.Conn, error) {
			b := &pgx.Batch{}
			b.Queue("select 1")
			results := tx.SendBatch(ctx, b)
			rows, err := results.Query()
			if err != nil {
				return nil, err
			}
			rows.Close()
			return rows.Conn(), results.Close()
		},
		"RowsOfQueued": func(ctx context.Context, tx pgx.Tx) (conn *pgx.Conn, err error) {
			b := &pgx.Batch{}
			b.Queue("select 1").Query(func(rows pgx.Rows) error { conn = rows.Conn(); return nil })
			err = tx.SendBatch(ctx, b).Close()
			return conn, err
		},
		"RowScanner": func(ctx context.Context, tx pgx.Tx) (*pgx.Conn, error) {
			var taker connTaker
			err := tx.QueryRow(ctx, "select 1").Scan(&taker)
			return taker.conn, err
		},
		"RowScannerOfRows": func(ctx context.Context, tx pgx.Tx) (*pgx.Conn, error) {
			var taker connTaker
			rows, err := tx.Query(ctx, "select 1")
			if err != nil {
				return nil, err
			}
			for rows.Next() {
				err = errors.Join(err, rows.Scan(&taker))
			}
			return taker.conn, errors.Join(err, rows.Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, nil)
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				conn, err := take(ctx, tx)
				if err == nil {
					_, err = conn.Exec(ctx, "commit; begin")
				}
				return errors.Join(err, errPaper)
			}}
			for range 2 {
				_, err := dedup.Do(ctx, f.d, call("k"), e.run)
				require.Error(t, err)
			}
			require.Equal(t, 1, f.effects(t, "k"))
		})
	}
}

// A nested DoTx whose twin the outer snapshot hides: the transaction is Do's own,
// and Do runs it again.
func TestNestedRestartIsRetried(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			ctx, f := variant{isolation: level}.setup(t, nil)
			e := &tool{ref: "outer", then: func(effectCtx context.Context, tx pgx.Tx, run int) error {
				if run == 1 { // the outer snapshot is taken
					if _, err := dedup.Do(ctx, f.peer(t), call("inner"), effect("inner")); err != nil {
						return err
					}
				}
				_, err := dedup.DoTx(effectCtx, f.d, tx, call("inner"), effect("inner"))
				return err
			}}
			_, err := dedup.Do(ctx, f.d, call("outer"), e.run)
			require.NoError(t, err)
			require.Equal(t, 1, f.effects(t, "outer"))
			require.Equal(t, 1, f.effects(t, "inner"))
		})
	}
}

// Few attempts do not make of a table that always conflicts one that is busy.
func TestConflictsWithFewAttempts(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, v variant) {
		for most := 1; most <= 3; most++ {
			ctx, f := v.setup(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: most}})
			f.exec(t, `CREATE UNIQUE INDEX foreign_one ON tool_dedup (tool)`)
			_, err := dedup.Do(ctx, f.d, call("a"), effect("a"))
			require.NoError(t, err)
			_, err = dedup.Do(ctx, f.d, call("b"), effect("b"))
			require.ErrorIs(t, err, dedup.ErrConflict, "MaxAttempts %d", most)
			require.False(t, dedup.IsRetryable(err))
		}
	})
}

// With ClaimFirst the record is written by an upsert of the claim.
func TestClaimFirstAndTriggerOfUpdates(t *testing.T) {
	t.Parallel()
	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		ctx, f := variant{order: order, isolation: pgx.ReadCommitted}.setup(t, nil)
		f.exec(t, `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
		f.exec(t, `CREATE TRIGGER swallow BEFORE UPDATE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION swallow()`)
		_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
		if order == dedup.LockFirst {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, dedup.ErrArbiter)
		require.Zero(t, f.effects(t, "k"))
	}
}

// What the guard refuses is a defect of the tool and nobody's answer, whatever the
// tool makes of it.
func TestFinalTxControlIsNotRecorded(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	_, err := dedup.Do(ctx, f.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		return ticket{}, dedup.Final(tx.Commit(ctx))
	})
	require.ErrorIs(t, err, dedup.ErrTxControl)
	require.Zero(t, f.records(t))
}

// The session's own lock_timeout holds where it is shorter than MaxWait.
func TestDoTxKeepsTheSessionsLockTimeout(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, &dedup.Options{MaxWait: time.Hour})
	holder, waiter := f.begin(t, ctx), f.begin(t, ctx)
	_, err := dedup.DoTx(ctx, f.d, holder, call("k"), effect("k"))
	require.NoError(t, err)
	_, err = waiter.Exec(ctx, `SET LOCAL lock_timeout = '100ms'`)
	require.NoError(t, err)
	_, err = dedup.DoTx(ctx, f.d, waiter, call("k"), effect("k"))
	require.ErrorIs(t, err, dedup.ErrInFlight)
	var own string
	require.NoError(t, waiter.QueryRow(ctx, `SHOW lock_timeout`).Scan(&own))
	require.Equal(t, "100ms", own)
}

// Somebody who only looks is no twin of a call that may not wait.
func TestLookersAreNoTwins(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	f.warm(t)
	looking, stop := context.WithCancel(ctx)
	var lookers sync.WaitGroup
	defer lookers.Wait()
	defer stop()
	other := f.peer(t)
	lookers.Go(func() {
		for looking.Err() == nil {
			_, _ = other.Lookup(looking, "acme", "create_ticket", "k")
		}
	})
	c := call("k")
	c.MaxWait = -1
	for range 100 {
		_, err := dedup.Do(ctx, f.d, c, func(context.Context, pgx.Tx) (ticket, error) { return ticket{}, errPaper })
		require.ErrorIs(t, err, errPaper)
	}
}

// DoTx cannot look again: it waits some milliseconds, in which who only looks is gone.
func TestDoTxThatMayNotWaitGivesLookersTime(t *testing.T) {
	t.Parallel()
	ctx, f, proxy := proxied(t, plain, nil)
	twin, err := f.direct(t).Pool().Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = twin.Rollback(ctx) }()
	_, err = dedup.DoTx(ctx, f.d, twin, call("k"), effect("k"))
	require.NoError(t, err)
	tx := f.begin(t, ctx)
	proxy.Reset()
	c := call("k")
	c.MaxWait = -1
	_, err = dedup.DoTx(ctx, f.d, tx, c, effect("k"))
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.True(t, slices.ContainsFunc(proxy.Snapshot().Statements, func(sql string) bool {
		return strings.Contains(sql, "pg_advisory_xact_lock(")
	}), "it waits inside Postgres")
}

// A look needs a snapshot that is younger than its lock, whatever the database's
// default isolation level: else it misses what a twin commits in between.
func TestLookupIsReadCommitted(t *testing.T) {
	t.Parallel()
	ctx, f, proxy := proxied(t, plain, nil)
	_, err := f.d.Lookup(ctx, "acme", "create_ticket", "warm")
	require.NoError(t, err)
	proxy.Reset()
	_, err = f.d.Lookup(ctx, "acme", "create_ticket", "k")
	require.NoError(t, err)
	seen := proxy.Snapshot()
	require.Equal(t, 1, seen.RoundTrips)
	require.Equal(t, "begin isolation level read committed", seen.Statements[0])
	require.Contains(t, seen.Statements[1], "pg_try_advisory_xact_lock_shared")
	require.Contains(t, seen.Statements[2], "SELECT fingerprint")
	require.Equal(t, "rollback", seen.Statements[3])
}

// A COMMIT that never came is known to have failed once the identity is found free:
// what the next attempt meets is the call's own error, and no unknown outcome.
func TestFreeIdentityEndsTheDoubt(t *testing.T) {
	t.Parallel()
	ctx, f, proxy := proxied(t, plain, &dedup.Options{CommitTimeout: time.Second, Retry: quickRetry})
	f.warm(t)
	dropped := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit})
	e := &tool{ref: "k", then: func(_ context.Context, _ pgx.Tx, run int) error {
		if run == 1 {
			return nil
		}
		return errPaper
	}}
	_, err := dedup.Do(ctx, f.d, call("k"), e.run)
	require.Equal(t, 1, dropped.Count())
	require.ErrorIs(t, err, errPaper)
	require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
	require.Zero(t, f.effects(t, "k"))
}

// A call that waited for a twin in another process opened no transaction for it.
func TestWaitingIsNoAttempt(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	f.warm(t)
	g := newGate()
	e := &tool{ref: "k", then: g.then}
	twin := start(ctx, f.d, call("k"), e.run)
	receive(t, ctx, g.entered)
	waiter := start(ctx, f.peer(t), call("k"), effect("k"))
	require.NoError(t, f.events.untilWaiting(ctx, 0, 1))
	g.release()
	receive(t, ctx, twin).require(t)
	result := receive(t, ctx, waiter).require(t)
	require.True(t, result.Replayed)
	require.Zero(t, result.Attempts)
}

// A call that may not wait is told of a twin after one look.
func TestOneLookShowsATwin(t *testing.T) {
	t.Parallel()
	ctx, f, proxy := proxied(t, plain, nil)
	f.warm(t)
	g := newGate()
	e := &tool{ref: "k", then: g.then}
	twin := start(ctx, f.direct(t), call("k"), e.run)
	receive(t, ctx, g.entered)
	proxy.Reset()
	c := call("k")
	c.MaxWait = -1
	_, err := dedup.Do(ctx, f.d, c, effect("k"))
	require.ErrorIs(t, err, dedup.ErrInFlight)
	looks := 0
	for _, sql := range proxy.Snapshot().Statements {
		if strings.Contains(sql, "try_advisory_xact_lock_shared") {
			looks++
		}
	}
	require.Equal(t, 1, looks)
	g.release()
	receive(t, ctx, twin).require(t)
}

// A statement that loses its race to a rival past the lock is a conflict, and told
// as one that was settled.
func TestStatementLosesItsRace(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, nil)
	f.warm(t)
	holder := f.begin(t, ctx)
	_, err := holder.Exec(ctx, `SELECT pg_advisory_xact_lock(42)`)
	require.NoError(t, err)
	type answer struct {
		dedup.Result[ticket]
		err error
	}
	done := make(chan answer, 1)
	go func() {
		result, err := dedup.DoStatement[ticket](ctx, f.d, call("k"),
			dedup.SQL(`WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(42)) INSERT INTO effects (ref) SELECT $1::text FROM held RETURNING 1 AS id, ref AS title`, "k"))
		done <- answer{result, err}
	}()
	f.eventually(t, waitingInside, 1)
	require.NoError(t, f.rival(ctx, call("k"), "k", ticket{ID: 99, Title: "rival"}))
	require.NoError(t, holder.Rollback(ctx))
	got := receive(t, ctx, done)
	require.NoError(t, got.err)
	require.Equal(t, 99, got.Value.ID)
	require.Len(t, events[dedup.ConflictData](f.events), 1)
	require.Equal(t, 1, f.effects(t, "k"))
}
