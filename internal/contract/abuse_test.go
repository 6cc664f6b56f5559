package contract_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// An abuse is what an effect does to its own transaction after its work.
type abuse struct {
	name string
	do   func(ctx context.Context, tx pgx.Tx, v victim) error
}

// victim is what an abuse reaches beside its transaction.
type victim struct {
	d      *dedup.Deduper
	call   dedup.Call
	cancel context.CancelFunc // of the call's context
}

// abuseSchema has the procedures that abuses call.
const abuseSchema = `
CREATE PROCEDURE abuse_commit() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$;
CREATE PROCEDURE abuse_rollback() LANGUAGE plpgsql AS $$ BEGIN ROLLBACK; END $$`

// abuses begin with SQL that ends, begins or spoils a transaction, in spellings that a guard may
// miss.
var abuses = append(abusiveSQL(
	"COMMIT", "commit;", "CoMmIt WORK", "COMMIT TRANSACTION", "COMMIT AND CHAIN", "COMMIT AND NO CHAIN",
	"END", "end transaction", "/* note */ COMMIT", "-- note\nCOMMIT", "/*a /*b*/ c*/ commit", "\n\t COMMIT -- done", ";;COMMIT",
	"ROLLBACK", "rollback work;", "ROLLBACK AND CHAIN", "ABORT", "abort transaction",
	"BEGIN", "START TRANSACTION", "BEGIN; COMMIT", "COMMIT; BEGIN", "ROLLBACK; BEGIN", "SELECT 1; COMMIT", "SELECT ';' ; COMMIT; SELECT 1",
	"PREPARE TRANSACTION 'abuse'", "COMMIT PREPARED 'none'", "ROLLBACK PREPARED 'none'",
	"SAVEPOINT s", "SAVEPOINT s; RELEASE s", "SAVEPOINT s; ROLLBACK TO s", "RELEASE never_made", "ROLLBACK TO never_made",
	"DO $$ BEGIN COMMIT; END $$", "CALL abuse_commit()", "CALL abuse_rollback()",
	"SET TRANSACTION READ ONLY", "SET LOCAL synchronous_commit = off", "SET search_path = pg_catalog", "SET LOCAL search_path = none",
	"SET session_replication_role = replica", "CREATE TEMP TABLE tool_dedup (x int)", "DISCARD PLANS", "DISCARD TEMP", "RESET ALL",
	"SET client_encoding = 'LATIN1'", "SET standard_conforming_strings = off", "SET statement_timeout = 1", "SELECT pg_terminate_backend(pg_backend_pid())",
	"SELECT pg_cancel_backend(pg_backend_pid())", "SELECT pg_advisory_unlock_all()", "SELECT 1/0", "SELECT * FROM no_such_table",
	"SET CONSTRAINTS ALL DEFERRED", "LOCK TABLE effects IN ACCESS EXCLUSIVE MODE",
),
	abuse{"Commit", func(ctx context.Context, tx pgx.Tx, _ victim) error { return tx.Commit(ctx) }},
	abuse{"CommitIgnored", func(ctx context.Context, tx pgx.Tx, _ victim) error { _ = tx.Commit(ctx); return nil }},
	abuse{"Rollback", func(ctx context.Context, tx pgx.Tx, _ victim) error { return tx.Rollback(ctx) }},
	abuse{"RollbackIgnored", func(ctx context.Context, tx pgx.Tx, _ victim) error { _ = tx.Rollback(ctx); return nil }},
	abuse{"CommitOnConn", func(ctx context.Context, tx pgx.Tx, _ victim) error {
		_, err := tx.Conn().Exec(ctx, "COMMIT")
		return err
	}},
	abuse{"CommitOnPgConnAndFail", func(ctx context.Context, tx pgx.Tx, _ victim) error {
		_ = tx.Conn().PgConn().Exec(ctx, "COMMIT").Close()
		return errOwn
	}},
	abuse{"CommitAndBeginOnConn", func(ctx context.Context, tx pgx.Tx, _ victim) error {
		_, err := tx.Conn().Exec(ctx, "COMMIT; BEGIN")
		return err
	}},
	abuse{"CloseConn", func(ctx context.Context, tx pgx.Tx, _ victim) error { return tx.Conn().Close(ctx) }},
	abuse{"BatchWithCommit", func(ctx context.Context, tx pgx.Tx, _ victim) error {
		b := &pgx.Batch{}
		b.Queue("SELECT 1")
		b.Queue("COMMIT")
		return tx.SendBatch(ctx, b).Close()
	}},
	abuse{"BatchLeftOpen", func(ctx context.Context, tx pgx.Tx, _ victim) error {
		b := &pgx.Batch{}
		b.Queue("SELECT 1")
		tx.SendBatch(ctx, b)
		return nil
	}},
	abuse{"RowsLeftOpen", func(ctx context.Context, tx pgx.Tx, _ victim) error {
		_, err := tx.Query(ctx, "SELECT generate_series(1, 10)")
		return err
	}},
	abuse{"FailureIgnored", func(ctx context.Context, tx pgx.Tx, _ victim) error {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return nil
	}},
	abuse{"SavepointLeftOpen", func(ctx context.Context, tx pgx.Tx, _ victim) error { _, err := tx.Begin(ctx); return err }},
	abuse{"SavepointRolledBack", func(ctx context.Context, tx pgx.Tx, _ victim) error {
		sp, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		return sp.Rollback(ctx)
	}},
	abuse{"ThousandSavepoints", func(ctx context.Context, tx pgx.Tx, _ victim) error {
		for range 1000 {
			if _, err := tx.Exec(ctx, "SAVEPOINT many"); err != nil {
				return err
			}
		}
		return nil
	}},
	abuse{"Panic", func(context.Context, pgx.Tx, victim) error { panic("abuse") }},
	abuse{"Goexit", func(context.Context, pgx.Tx, victim) error { runtime.Goexit(); return nil }},
	abuse{"ContextCancelled", func(_ context.Context, _ pgx.Tx, v victim) error { v.cancel(); return nil }},
	abuse{"CopyFails", func(ctx context.Context, tx pgx.Tx, _ victim) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"no_such_column"}, pgx.CopyFromRows([][]any{{1}}))
		return err
	}},
	abuse{"DoInside", func(ctx context.Context, _ pgx.Tx, v victim) error {
		_, err := dedup.Do(ctx, v.d, v.call, func(context.Context, pgx.Tx) (int, error) { return 0, nil })
		return err
	}},
	abuse{"DoTxOfItself", func(ctx context.Context, tx pgx.Tx, v victim) error {
		_, err := dedup.DoTx(ctx, v.d, tx, v.call, func(context.Context, pgx.Tx) (int, error) { return 0, nil })
		return err
	}},
)

func abusiveSQL(texts ...string) (some []abuse) {
	for _, text := range texts {
		some = append(some, abuse{fmt.Sprintf("%q", text), func(ctx context.Context, tx pgx.Tx, _ victim) error {
			_, err := tx.Exec(ctx, text)
			return err
		}})
	}
	return some
}

// TestLongAbuse has effects that break their own transaction, with prepared statements and with the
// simple protocol, in which one text can be several statements. At most one run of an effect is
// ever committed, an answer is only given for that run, and the Deduper takes the next call.
func TestLongAbuse(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, b := setup(t, nil)
			b.exec(t, abuseSchema, pgx.QueryExecModeSimpleProtocol)
			for i, a := range abuses {
				t.Run(a.name, func(t *testing.T) { // one after the other: some lock the table
					a.try(t, ctx, b, mode, fmt.Sprint(i))
				})
			}
		})
	}
}

// try makes two calls with the abuse and two without it, on a pool of one connection.
func (a abuse) try(t *testing.T, ctx context.Context, b *bundle, mode pgx.QueryExecMode, key string) {
	pool := b.db.Pool(t, poolOfOne, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
	d := newDeduper(t, pool, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}})
	var answers []int
	for _, then := range []func(context.Context, pgx.Tx, victim) error{a.do, a.do, nil, nil} {
		if run, err := abused(ctx, d, call(key), then); err == nil {
			answers = append(answers, run)
		}
	}
	if _, err := abused(ctx, d, call(key+" after"), nil); err != nil {
		pool.Reset() // a SET without LOCAL stays on the connection, as it does without dedup
		_, err = abused(ctx, d, call(key+" after"), nil)
		require.NoError(t, err)
	}
	require.Equal(t, 1, b.effects(t, key+" after"))
	runs := scalar[[]int](t, b, `SELECT coalesce(array_agg(run::int), '{}') FROM effects WHERE ref = $1`, key)
	require.LessOrEqual(t, len(runs), 1, "committed runs")
	for _, answer := range answers {
		require.Equal(t, []int{answer}, runs, "the run that was answered is the one that is committed")
	}
}

// abused makes a call on a goroutine of its own, which the effect may end. Its context ends after a
// while: a call of DoInside waits for the connection that its own transaction has.
func abused(ctx context.Context, d *dedup.Deduper, c dedup.Call, then func(context.Context, pgx.Tx, victim) error) (run int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if then == nil { // nothing waits for itself
		ctx = context.WithoutCancel(ctx)
	}
	err = errors.New("the goroutine was ended")
	var caller sync.WaitGroup
	caller.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v", v)
			}
		}()
		var result dedup.Result[int]
		result, err = dedup.Do(ctx, d, c, func(ctx context.Context, tx pgx.Tx) (run int, err error) {
			err = tx.QueryRow(ctx, `INSERT INTO public.effects (ref, run) VALUES ($1, nextval('public.runs')) RETURNING run`, c.Key).Scan(&run)
			if err == nil && then != nil {
				err = then(ctx, tx, victim{d, c, cancel})
			}
			return run, err
		})
		run = result.Value
	})
	caller.Wait()
	return run, err
}
