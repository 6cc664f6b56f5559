package contract_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
)

// rewritten is a QueryRewriter: the text that it sends is not the one that was
// looked at.
type rewritten string

func (r rewritten) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return string(r), nil, nil
}

type customPanic struct{ Code int }

func badEffects() (rows []badRow) {
	both := func(row badRow, s step) {
		do, doTx := row, row
		do.run = func(w *badWorld) error { return w.do(s) }
		doTx.name += "Tx"
		doTx.run = func(w *badWorld) error { return w.doTx(s) }
		rows = append(rows, do, doTx)
	}
	sql := func(text string) step {
		return func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, text); return err }
	}

	// TestControlIsRefused has every spelling, by every method that takes SQL.
	control := is(guard.ErrTxControl)
	for name, s := range map[string]step{
		"TxCommit":   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"TxRollback": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"Exec":       sql("COMMIT"),
		"BatchBegin": func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.BeginTx(pgx.TxOptions{})
			return tx.SendBatch(ctx, b).Close()
		},
		"Savepoint": func(ctx context.Context, tx pgx.Tx) error {
			sub, err := tx.Begin(ctx)
			if err == nil {
				_, err = sub.Exec(ctx, "COMMIT")
			}
			return err
		},
		"DeferRollback": func(ctx context.Context, tx pgx.Tx) error { defer tx.Rollback(ctx); return nil },
	} {
		both(badRow{name: "Control" + name, want: control}, s)
		if name == "DeferRollback" {
			continue
		}
		both(badRow{name: "ControlSwallowed" + name, want: control}, func(ctx context.Context, tx pgx.Tx) error { _ = s(ctx, tx); return nil })
		both(badRow{name: "ControlReplaced" + name, want: control}, func(ctx context.Context, tx pgx.Tx) error { _ = s(ctx, tx); return errOwn })
	}

	both(badRow{name: "OwnError", want: is(errOwn)}, func(context.Context, pgx.Tx) error { return errOwn })
	both(badRow{name: "Swallowed", want: is(guard.ErrTxAborted)}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return nil
	})
	both(badRow{name: "SwallowedThenOwnError", want: is(errOwn)}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return errOwn
	})
	both(badRow{name: "ServerError", want: state("22012")}, sql("SELECT 1/0"))
	both(badRow{name: "OwnUnique", want: state("23505")}, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "CREATE TABLE u (a int PRIMARY KEY); INSERT INTO u VALUES (1), (1)")
		return err
	})
	both(badRow{name: "StatementTimeout", want: state("57014")}, sql("SET LOCAL statement_timeout = 1; SELECT pg_sleep(60)"))
	both(badRow{name: "DiscardAll", want: state("25001")}, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DISCARD ALL")
		return err
	})
	both(badRow{name: "CommitInBlock", want: state("2D000")}, sql("DO $$BEGIN COMMIT; END$$"))

	for name, value := range map[string]any{
		"String": "boom", "Error": errOwn, "NilPointer": (*customPanic)(nil), "ControlError": guard.ErrTxControl,
	} {
		both(badRow{name: "Panic" + name, want: panics(value)}, func(context.Context, pgx.Tx) error { panic(value) })
	}
	nilPanic := func(t *testing.T, err error) {
		t.Helper()
		require.IsType(t, new(runtime.PanicNilError), err.(panicked).value)
	}
	both(badRow{name: "PanicNil", want: nilPanic}, func(context.Context, pgx.Tx) error { panic(nil) })
	both(badRow{name: "PanicAborted", want: panics("boom")}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		panic("boom")
	})
	both(badRow{name: "RuntimePanic", want: func(t *testing.T, err error) {
		var runtimeErr runtime.Error
		require.ErrorAs(t, err.(panicked).value.(error), &runtimeErr)
	}}, func(context.Context, pgx.Tx) error { var none []int; return errors.New(string(rune(none[len(none)]))) })

	goexit := func(run func(w *badWorld, s step) error) func(w *badWorld) error {
		return func(w *badWorld) error {
			ended, returned := make(chan struct{}), false
			go func() {
				defer close(ended)
				_ = run(w, func(context.Context, pgx.Tx) error { runtime.Goexit(); return nil })
				returned = true
			}()
			<-ended
			require.False(w.t, returned)
			return nil
		}
	}
	rows = append(rows,
		badRow{name: "Goexit", want: fine, run: goexit((*badWorld).do)},
		badRow{name: "GoexitTx", want: fine, run: goexit(func(w *badWorld, s step) error {
			tx, err := w.pool.Begin(w.ctx)
			require.NoError(w.t, err)
			defer w.requireUsable(tx)
			_, err = dedup.DoTx(w.ctx, w.d, tx, call("k"), s.effect())
			return err
		})},
	)

	// What is left open makes the connection unusable, so only Do goes on.
	do := func(row badRow, s step) {
		row.run = func(w *badWorld) error { return w.do(s) }
		rows = append(rows, row)
	}
	many := "SELECT generate_series(1, 1000)"
	do(badRow{name: "OpenRows", want: is(guard.ErrTxBusy)}, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, many)
		rows.Next()
		return err
	})
	do(badRow{name: "OpenRow", want: is(guard.ErrTxBusy)}, func(ctx context.Context, tx pgx.Tx) error { tx.QueryRow(ctx, many); return nil })
	do(badRow{name: "OpenBatch", want: is(guard.ErrTxBusy)}, func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(many)
		tx.SendBatch(ctx, b)
		return nil
	})
	do(badRow{name: "OpenRowsAndOwnError", want: is(errOwn)}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Query(ctx, many)
		return errOwn
	})
	do(badRow{name: "OpenRowsAndPanic", want: panics("boom")}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Query(ctx, many)
		panic("boom")
	})
	do(badRow{name: "TwoStatementsAtOnce", want: func(t *testing.T, err error) { require.ErrorContains(t, err, "conn busy") }},
		func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Query(ctx, many)
			_, err := tx.Exec(ctx, "SELECT 1")
			return err
		})
	return rows
}

func brokenEffect(t *testing.T, err error) {
	t.Helper()
	var broken *dedup.Error
	require.ErrorAs(t, err, &broken)
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.False(t, dedup.IsRetryable(err))
	require.NotContains(t, err.Error(), "could not be recorded")
}

// badEndings end the library's transaction by doors that stay open.
func badEndings() (rows []badRow) {
	broken := func(name string, effects int, s step) {
		row := badRow{name: "Broken" + name, want: brokenEffect, records: 1, effects: effects, next: dedup.ErrBroken}
		do, doTx := row, row
		do.run = func(w *badWorld) error { return w.do(s) }
		doTx.name += "Tx"
		doTx.run = func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), s.effect())
				return err
			})
		}
		rows = append(rows, do, doTx)
	}
	conn := func(text string, after error) step {
		return func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Conn().Exec(ctx, text); err != nil {
				return err
			}
			return after
		}
	}
	for name, text := range map[string]string{"Commit": "COMMIT", "Chain": "COMMIT AND CHAIN", "CommitBegin": "commit; begin"} {
		broken(name, 1, conn(text, nil))
		broken(name+"Error", 1, conn(text, errOwn))
		broken(name+"Final", 1, conn(text, dedup.Final(errOwn)))
	}
	broken("Rollback", 0, conn("ROLLBACK", nil))
	broken("RollbackError", 0, conn("ROLLBACK", errOwn))
	broken("RollbackChain", 0, conn("ROLLBACK AND CHAIN", nil))
	const insert = `INSERT INTO effects (ref) VALUES ('k')`
	broken("RollbackThenEffect", 0, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "ROLLBACK")
		if err == nil {
			_, _ = tx.Exec(ctx, insert) // refused: the statement would commit
		}
		return err
	})
	broken("RollbackThenConn", 1, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "ROLLBACK")
		if err == nil {
			_, err = tx.Conn().Exec(ctx, insert)
		}
		return err
	})
	broken("RollbackBeginThenEffect", 0, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "rollback; begin")
		if err == nil {
			_, err = tx.Exec(ctx, insert)
		}
		return err
	})
	broken("ConnBegin", 1, func(ctx context.Context, tx pgx.Tx) error {
		inner, err := tx.Conn().Begin(ctx) // only a warning
		if err != nil {
			return err
		}
		return inner.Commit(ctx)
	})
	broken("ConnBeginRollback", 0, func(ctx context.Context, tx pgx.Tx) error {
		inner, err := tx.Conn().Begin(ctx)
		if err != nil {
			return err
		}
		return inner.Rollback(ctx)
	})
	broken("PreparedOnConn", 1, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Prepare(ctx, "p", "COMMIT")
		if err == nil {
			_, err = tx.Exec(ctx, "p")
		}
		return err
	})
	broken("CommitThenBadResult", 1, conn("COMMIT", dedup.ErrInvalid))
	broken("RowsConn", 1, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "SELECT 1")
		if err != nil {
			return err
		}
		rows.Close()
		_, err = rows.Conn().Exec(ctx, "commit; begin")
		return errors.Join(err, errOwn)
	})
	for name, text := range map[string]string{"Commit": "COMMIT", "Chain": "COMMIT AND CHAIN"} {
		for after, err := range map[string]error{"": nil, "Error": errOwn} {
			if name == "Chain" && err != nil {
				continue // see "What is not promised" in docs/design.md
			}
			broken("Rewriter"+name+after, 1, func(ctx context.Context, tx pgx.Tx) error {
				if _, failed := tx.Exec(ctx, "SELECT 1", rewritten(text)); failed != nil {
					return failed
				}
				return err
			})
			broken("OldStrings"+name+after, 1, func(ctx context.Context, tx pgx.Tx) error {
				if _, failed := tx.Exec(ctx, "SET LOCAL standard_conforming_strings = off"); failed != nil {
					return failed
				}
				if _, failed := tx.Exec(ctx, `SELECT '\''; `+text+`; --'`); failed != nil {
					return failed
				}
				return err
			})
		}
	}

	commit := func(ctx context.Context, tx pgx.Tx) {
		if _, err := tx.Conn().Exec(ctx, "COMMIT"); err != nil {
			panic(err)
		}
	}
	return append(rows,
		badRow{name: "BrokenCommitPanic", want: panics("boom"), records: 1, effects: 1, next: dedup.ErrBroken, run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error { commit(ctx, tx); panic("boom") })
		}},
		badRow{name: "BrokenCommitPanicTx", want: panics("boom"), records: 1, effects: 1, next: dedup.ErrBroken, run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				return caught(func() error {
					_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), step(func(ctx context.Context, tx pgx.Tx) error { commit(ctx, tx); panic("boom") }).effect())
					return err
				})
			})
		}},
		badRow{name: "BrokenByTheCallersVariable", want: brokenEffect, records: 1, effects: 1, next: dedup.ErrBroken, run: func(w *badWorld) error {
			return w.inTx(func(outer pgx.Tx) error {
				_, err := dedup.DoTx(w.ctx, w.d, outer, call("k"), step(func(ctx context.Context, _ pgx.Tx) error { return outer.Commit(ctx) }).effect())
				return err
			})
		}},
		badRow{name: "BrokenCommitCancelled", want: brokenEffect, records: 1, effects: 1, next: dedup.ErrBroken, run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(ctx context.Context, tx pgx.Tx) error { commit(ctx, tx); cancel(); return ctx.Err() })
		}},
		badRow{name: "BrokenThenReset", want: brokenEffect, effects: 1, run: func(w *badWorld) error {
			err := w.do(conn("COMMIT", nil))
			freed, reset := w.d.Reset(w.ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{Reason: "repaired"})
			require.NoError(w.t, reset)
			require.True(w.t, freed)
			return err
		}},
	)
}
