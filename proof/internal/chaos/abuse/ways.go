package abuse

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// way is what an effect does to its transaction after it has done its work.
type way struct {
	name string
	do   func(ctx context.Context, tx pgx.Tx, w *world) error
}

// world is what an effect may reach beside its transaction.
type world struct {
	d      *dedup.Deduper // nil in the control arm
	call   dedup.Call
	cancel context.CancelFunc
}

// ways are all of them. The first are SQL that ends, begins or spoils a
// transaction, in the spellings that a guard may overlook.
var ways = append(spelled(
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
	way{"Commit()", func(ctx context.Context, tx pgx.Tx, _ *world) error { return tx.Commit(ctx) }},
	way{"Commit(), its error ignored", func(ctx context.Context, tx pgx.Tx, _ *world) error { _ = tx.Commit(ctx); return nil }},
	way{"Rollback()", func(ctx context.Context, tx pgx.Tx, _ *world) error { return tx.Rollback(ctx) }},
	way{"Rollback(), its error ignored", func(ctx context.Context, tx pgx.Tx, _ *world) error { _ = tx.Rollback(ctx); return nil }},
	way{"COMMIT on Conn()", func(ctx context.Context, tx pgx.Tx, _ *world) error {
		_, err := tx.Conn().Exec(ctx, "COMMIT")
		return err
	}},
	way{"COMMIT on the PgConn, then an error", func(ctx context.Context, tx pgx.Tx, _ *world) error {
		_ = tx.Conn().PgConn().Exec(ctx, "COMMIT").Close()
		return errors.New("after a COMMIT of its own")
	}},
	way{"COMMIT and BEGIN on Conn()", func(ctx context.Context, tx pgx.Tx, _ *world) error {
		_, err := tx.Conn().Exec(ctx, "COMMIT; BEGIN")
		return err
	}},
	way{"Conn().Close()", func(ctx context.Context, tx pgx.Tx, _ *world) error { return tx.Conn().Close(ctx) }},
	way{"a batch with COMMIT", func(ctx context.Context, tx pgx.Tx, _ *world) error {
		b := &pgx.Batch{}
		b.Queue("SELECT 1")
		b.Queue("COMMIT")
		return tx.SendBatch(ctx, b).Close()
	}},
	way{"a batch left open", func(ctx context.Context, tx pgx.Tx, _ *world) error {
		b := &pgx.Batch{}
		b.Queue("SELECT 1")
		tx.SendBatch(ctx, b)
		return nil
	}},
	way{"rows left open", func(ctx context.Context, tx pgx.Tx, _ *world) error {
		_, err := tx.Query(ctx, "SELECT generate_series(1, 10)")
		return err
	}},
	way{"a failed statement ignored", func(ctx context.Context, tx pgx.Tx, _ *world) error {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return nil
	}},
	way{"a savepoint left open", func(ctx context.Context, tx pgx.Tx, _ *world) error { _, err := tx.Begin(ctx); return err }},
	way{"a savepoint rolled back", func(ctx context.Context, tx pgx.Tx, _ *world) error {
		sp, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		return sp.Rollback(ctx)
	}},
	way{"a thousand savepoints", func(ctx context.Context, tx pgx.Tx, _ *world) error {
		for range 1000 {
			if _, err := tx.Exec(ctx, "SAVEPOINT many"); err != nil {
				return err
			}
		}
		return nil
	}},
	way{"a panic", func(context.Context, pgx.Tx, *world) error { panic("abuse") }},
	way{"Goexit", func(context.Context, pgx.Tx, *world) error { runtime.Goexit(); return nil }},
	way{"its context cancelled", func(_ context.Context, _ pgx.Tx, w *world) error { w.cancel(); return nil }},
	way{"COPY that fails", func(ctx context.Context, tx pgx.Tx, _ *world) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"no_such_column"}, pgx.CopyFromRows([][]any{{1}}))
		return err
	}},
	way{"Do inside", func(ctx context.Context, _ pgx.Tx, w *world) error {
		if w.d == nil {
			return nil
		}
		_, err := dedup.Do(ctx, w.d, w.call, func(context.Context, pgx.Tx) (int, error) { return 0, nil })
		return err
	}},
	way{"DoTx of itself", func(ctx context.Context, tx pgx.Tx, w *world) error {
		if w.d == nil {
			return nil
		}
		_, err := dedup.DoTx(ctx, w.d, tx, w.call, func(context.Context, pgx.Tx) (int, error) { return 0, nil })
		return err
	}},
)

func spelled(texts ...string) (ways []way) {
	for _, text := range texts {
		ways = append(ways, way{fmt.Sprintf("%q", text), func(ctx context.Context, tx pgx.Tx, _ *world) error {
			_, err := tx.Exec(ctx, text)
			return err
		}})
	}
	return ways
}
