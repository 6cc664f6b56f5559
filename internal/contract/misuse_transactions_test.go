package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// badNesting has calls inside effects: with the Deduper of the outer call, and with one of another
// pool.
func badNesting() (rows []badRow) {
	type inner func(ctx context.Context, d *dedup.Deduper, tx pgx.Tx) error
	do := func(key string) inner {
		return func(ctx context.Context, d *dedup.Deduper, _ pgx.Tx) error {
			_, err := dedup.Do(ctx, d, call(key), effect(key))
			return err
		}
	}
	itself := func(ctx context.Context, d *dedup.Deduper, tx pgx.Tx) error {
		_, err := dedup.DoTx(ctx, d, tx, call("k"), effect("k"))
		return err
	}
	for name, makes := range map[string]inner{
		"DoInDo":        do("other"),
		"DoInDoSameKey": do("k"),
		"DoInDoDerived": func(ctx context.Context, d *dedup.Deduper, tx pgx.Tx) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
			defer cancel()
			return do("other")(ctx, d, tx)
		},
		"DoStatementInDo": func(ctx context.Context, d *dedup.Deduper, _ pgx.Tx) error {
			_, err := byStatement(ctx, d, call("other"))
			return err
		},
		"DoBatchInDo": func(ctx context.Context, d *dedup.Deduper, _ pgx.Tx) error {
			_, err := byBatchOfTwo(ctx, d, call("other"))
			return err
		},
		"Reentrant": itself,
		"ReentrantThroughAnotherPool": func(ctx context.Context, d *dedup.Deduper, tx pgx.Tx) error {
			pool, err := pgxpool.NewWithConfig(ctx, d.Pool().Config())
			if err != nil {
				return err
			}
			defer pool.Close()
			other, err := dedup.New(pool, nil)
			if err != nil {
				return err
			}
			return itself(ctx, other, tx)
		},
		"ReentrantThroughAnother": func(ctx context.Context, d *dedup.Deduper, tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, d, tx, call("other"), step(func(ctx context.Context, tx pgx.Tx) error { return itself(ctx, d, tx) }).effect())
			return err
		},
	} {
		made := func(w *badWorld, swallow bool) step {
			pool, err := pgxpool.NewWithConfig(w.ctx, w.pool.Config())
			require.NoError(w.t, err)
			w.t.Cleanup(pool.Close)
			by := newDeduper(w.t, pool, nil)
			return func(ctx context.Context, tx pgx.Tx) error {
				err := makes(ctx, by, tx)
				require.ErrorIs(w.t, makes(ctx, w.d, tx), dedup.ErrInvalid)
				if swallow {
					return nil
				}
				return err
			}
		}
		rows = append(rows,
			badRow{name: name, want: is(dedup.ErrInvalid), run: func(w *badWorld) error { return w.do(made(w, false)) }},
			badRow{name: name + "Tx", want: is(dedup.ErrInvalid), run: func(w *badWorld) error { return w.doTx(made(w, false)) }},
			badRow{name: name + "Swallowed", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error { return w.do(made(w, true)) }})
	}

	// cancelled is an inner call whose own context ends, before it or in it.
	cancelled := func(w *badWorld, before, swallow bool) step {
		return func(ctx context.Context, tx pgx.Tx) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if before {
				cancel()
			}
			_, err := dedup.DoTx(ctx, w.d, tx, call("inner"), step(func(context.Context, pgx.Tx) error {
				cancel()
				return nil
			}).effect())
			require.ErrorIs(w.t, err, context.Canceled)
			if swallow {
				return nil
			}
			return err
		}
	}
	for name, before := range map[string]bool{"InnerCancelledBefore": true, "InnerCancelledIn": false} {
		rows = append(rows,
			badRow{name: name, want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error { return w.do(cancelled(w, before, true)) }},
			badRow{name: name + "Tx", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error { return w.doTx(cancelled(w, before, true)) }},
			badRow{name: name + "Fails", want: is(context.Canceled), run: func(w *badWorld) error { return w.do(cancelled(w, before, false)) }},
			badRow{name: name + "FailsTx", want: is(context.Canceled), run: func(w *badWorld) error { return w.doTx(cancelled(w, before, false)) }})
	}
	return append(rows, badRow{name: "NestedPanicRecovered", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
		return w.do(func(ctx context.Context, tx pgx.Tx) error {
			err := caught(func() error {
				_, err := dedup.DoTx(ctx, w.d, tx, call("other"), step(func(context.Context, pgx.Tx) error { panic("inner") }).effect())
				return err
			})
			panics("inner")(w.t, err)
			return nil
		})
	}})
}

// badTransactions are those of callers, in a state in which no call can be made.
func badTransactions() (rows []badRow) {
	doTx := func(w *badWorld, tx pgx.Tx) error {
		_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), effect("k"))
		return err
	}
	for name, spoil := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"Committed":  func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"RolledBack": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"EndedBySQL": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "ROLLBACK"); return err },
		"Aborted":    func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, "SELECT 1/0"); return nil },
	} {
		rows = append(rows, badRow{name: "Tx" + name, want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				require.NoError(w.t, spoil(w.ctx, tx))
				return doTx(w, tx)
			})
		}})
	}
	return append(rows,
		badRow{name: "TxConnClosed", want: is(dedup.ErrRestartTx), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				require.NoError(w.t, tx.Conn().Close(w.ctx))
				return doTx(w, tx)
			})
		}},
		badRow{name: "TxNil", want: invalidCall("tx"), run: func(w *badWorld) error { return doTx(w, nil) }},
		badRow{name: "TxEndedSavepoint", want: is(pgx.ErrTxClosed), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				sub, err := tx.Begin(w.ctx)
				require.NoError(w.t, err)
				require.NoError(w.t, sub.Commit(w.ctx))
				err = doTx(w, sub)
				w.requireUsable(tx)
				return err
			})
		}},
		badRow{name: "TxBusy", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				rows, err := tx.Query(w.ctx, "SELECT generate_series(1, 1000)")
				require.NoError(w.t, err)
				err = doTx(w, tx)
				rows.Close()
				w.requireUsable(tx)
				return err
			})
		}},
		badRow{name: "TxOfAnEffectThatReturned", want: invalidCall("tx"), run: func(w *badWorld) error {
			var kept pgx.Tx
			require.ErrorIs(w.t, w.do(func(ctx context.Context, tx pgx.Tx) error { kept = tx; return errOwn }), errOwn)
			return doTx(w, kept)
		}},
		badRow{name: "TxRolledBackByCaller", want: fine, run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { return doTx(w, tx) })
		}},
	)
}

// badContexts end before a call, and at each place where it may be.
func badContexts() (rows []badRow) {
	nothing := func(context.Context, pgx.Tx) error { return nil }
	// held cancels the call's context as soon as the fault is applied.
	held := func(kind faultproxy.Kind, where func(faultproxy.Unit) bool) func(w *badWorld) error {
		return func(w *badWorld) error {
			armed := w.proxy.Arm(faultproxy.Fault{Kind: kind, Where: where})
			defer armed.Release()
			ctx, cancel := cancelledAt(w.ctx, armed)
			defer cancel()
			err := w.doCtx(ctx, nothing)
			require.Equal(w.t, 1, armed.Count())
			return err
		}
	}
	for name, where := range map[string]func(faultproxy.Unit) bool{
		"Open": faultproxy.AtSQL("pg_try_advisory_xact_lock"), "Statement": faultproxy.AtSQL("insert into effects"),
	} {
		rows = append(rows,
			badRow{name: "CancelledIn" + name, proxied: true, want: is(context.Canceled), run: held(faultproxy.Hold, where)},
			badRow{name: "CancelledAfter" + name, proxied: true, want: is(context.Canceled), run: held(faultproxy.ReplyDelayed, where)})
	}
	for name, after := range map[string]error{"": nil, "OwnError": errOwn, "Final": dedup.Final(errOwn)} {
		rows = append(rows, badRow{name: "CancelledInEffect" + name, want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			err := w.doCtx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				cancel()
				if after != nil {
					return after
				}
				_, err := tx.Exec(ctx, "SELECT 1")
				return err
			})
			require.Equal(w.t, after != nil, errors.Is(err, errOwn))
			require.NotErrorIs(w.t, err, dedup.ErrRefused)
			return err
		}})
	}
	unknown := func(t *testing.T, err error) {
		t.Helper()
		is(dedup.ErrOutcomeUnknown, context.Canceled)(t, err)
		var outcome *dedup.Error
		require.ErrorAs(t, err, &outcome)
		require.True(t, dedup.IsRetryable(err))
	}
	cause := errors.New("the reason")
	return append(rows,
		badRow{name: "CancelledBefore", want: is(context.Canceled, cause), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancelCause(w.ctx)
			cancel(cause)
			return w.doCtx(ctx, nothing)
		}},
		badRow{name: "CancelledBeforeTx", want: is(context.Canceled), run: func(w *badWorld) error {
			tx, err := w.pool.Begin(w.ctx)
			require.NoError(w.t, err)
			defer w.requireUsable(tx)
			ctx, cancel := context.WithCancel(w.ctx)
			cancel()
			_, err = dedup.DoTx(ctx, w.d, tx, call("k"), effect("k"))
			return err
		}},
		badRow{name: "DeadlineBefore", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			ctx, cancel := context.WithDeadline(w.ctx, time.Now())
			defer cancel()
			return w.doCtx(ctx, nothing)
		}},
		badRow{name: "CancelledInAcquire", want: is(context.Canceled), run: func(w *badWorld) error {
			for range w.pool.Config().MaxConns {
				conn, err := w.pool.Acquire(w.ctx)
				require.NoError(w.t, err)
				defer conn.Release()
			}
			ctx, cancel := context.WithCancel(w.ctx)
			w.traced.waiting = cancel
			err := w.doCtx(ctx, nothing)
			w.traced.waiting = nil
			return err
		}},
		badRow{name: "OwnDeadlineInEffect", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			_, err := dedup.Do(w.ctx, w.d, storing("k"), step(func(ctx context.Context, tx pgx.Tx) error {
				ctx, cancel := context.WithDeadline(ctx, time.Now())
				defer cancel()
				_, err := tx.Exec(ctx, "SELECT 1")
				return err
			}).effect())
			return err
		}},
		badRow{name: "CommitDropped", proxied: true, opts: dedup.Options{Retry: dedup.RetryPolicy{BaseDelay: time.Hour, MaxDelay: time.Hour}}, want: unknown,
			run: held(faultproxy.Dropped, faultproxy.AtCommit)},
	)
}

// badSessions change the session or the schema in ways that an effect must not.
func badSessions() (rows []badRow) {
	add := func(row badRow, s step) {
		row.alone = true
		row.run = func(w *badWorld) error { return w.do(s) }
		rows = append(rows, row)
	}
	sql := func(text string) step {
		return func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, text); return err }
	}
	stored := func(name, text string) {
		add(badRow{name: name, want: fine, records: 1, effects: 1, replays: true}, sql(text))
	}
	stored("TempTableShadows", "CREATE TEMP TABLE tool_dedup (LIKE public.tool_dedup INCLUDING ALL)")
	stored("TempViewShadows", "CREATE TEMP VIEW tool_dedup AS SELECT 1 AS scope")
	stored("SearchPath", "SET search_path = pg_temp, pg_catalog")
	stored("SearchPathElsewhere", "CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.tool_dedup (LIKE public.tool_dedup INCLUDING ALL); SET LOCAL search_path = elsewhere")
	stored("FunctionsShadowed", "CREATE SCHEMA elsewhere; CREATE FUNCTION elsewhere.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT 'epoch'::timestamptz$$; SET LOCAL search_path = elsewhere, pg_catalog, public")
	stored("ReplicationRole", "SET LOCAL session_replication_role = replica")
	stored("TimeZoneAndDateStyle", "SET LOCAL TimeZone = 'Asia/Kathmandu'; SET LOCAL DateStyle = 'German'; SET LOCAL IntervalStyle = 'sql_standard'")
	stored("ResetAll", "RESET ALL")
	stored("OwnAdvisoryUnlock", "SELECT pg_advisory_unlock_all()")

	add(badRow{name: "SetRole", want: state("42501")}, sql("SET ROLE pg_monitor"))
	add(badRow{name: "SetLocalRole", want: state("42501")}, sql("SET LOCAL ROLE pg_monitor"))
	add(badRow{name: "TableRenamed", want: state("42P01")}, sql("ALTER TABLE tool_dedup RENAME TO gone"))
	add(badRow{name: "TableDropped", want: state("42P01")}, sql("DROP TABLE tool_dedup"))
	add(badRow{name: "WritesOwnRecord", want: is(dedup.ErrSchema)}, sql(`INSERT INTO tool_dedup VALUES ('acme', 'create_ticket', 'k', decode(repeat('00', 32), 'hex'), NULL, 'done', '1', now(), now(), now())`))
	add(badRow{name: "RecordRedirected", want: state("0A000")}, sql("CREATE RULE r AS ON INSERT TO tool_dedup DO INSTEAD NOTHING"))
	add(badRow{name: "RecordSwallowed", want: is(dedup.ErrBroken), effects: 1, next: dedup.ErrSchema}, sql(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
		CREATE TRIGGER no BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION no()`))
	add(badRow{name: "RecordRefused", want: state("P0001")}, sql(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$;
		CREATE TRIGGER no BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION no()`))

	twice := dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 2}}
	gaveUp := is(dedup.ErrAttemptsExhausted)
	add(badRow{name: "ReadOnly", want: is(dedup.ErrInvalid)}, sql("SET TRANSACTION READ ONLY"))
	add(badRow{name: "ConnClosed", opts: twice, want: gaveUp}, func(ctx context.Context, tx pgx.Tx) error { return tx.Conn().Close(ctx) })
	return rows
}

// TestNestedByAKeptContext makes a Do with the context of an inner effect that
// has returned: nested as long as the outer one has not.
func TestNestedByAKeptContext(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	var kept context.Context
	other := &tool{ref: "other"}
	outer := &tool{ref: "outer", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		_, err := dedup.DoTx(ctx, f.d, tx, call("inner"), func(ctx context.Context, _ pgx.Tx) (ticket, error) {
			kept = ctx
			return ticket{}, nil
		})
		if err != nil {
			return err
		}
		_, err = dedup.Do(kept, f.d, call("other"), other.run)
		return err
	}}
	_, err := dedup.Do(ctx, f.d, call("outer"), outer.run)
	require.ErrorIs(t, err, dedup.ErrInvalid)
	other.requireRuns(t, 0)
	require.Zero(t, f.records(t))

	_, err = dedup.Do(kept, f.d, call("other"), other.run)
	require.NoError(t, err, "both effects have returned")
	other.requireRuns(t, 1)
}

// A nested DoTx whose twin the outer snapshot hides: the transaction is Do's own,
// and Do runs it again.
func TestNestedRestartIsRetried(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{isolation: level}.setup(t, nil)
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
