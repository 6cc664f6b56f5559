package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/guard"
)

func badNesting() []badRow {
	nested := func(key string) func(w *badWorld) step {
		return func(w *badWorld) step {
			return func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.Do(ctx, w.d, call(key), effect(key))
				return err
			}
		}
	}
	reentrant := func(w *badWorld) step {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, w.d, tx, call("k"), effect("k"))
			return err
		}
	}
	swallow := func(s step) step {
		return func(ctx context.Context, tx pgx.Tx) error { _ = s(ctx, tx); return nil }
	}
	// cancelled is an inner call whose own context ends, before it or in it.
	cancelled := func(w *badWorld, before bool) step {
		return func(ctx context.Context, tx pgx.Tx) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if before {
				cancel()
			}
			_, err := dedup.DoTx(ctx, w.d, tx, call("inner"), step(func(ctx context.Context, tx pgx.Tx) error {
				cancel()
				return ctx.Err()
			}).effect())
			return err
		}
	}
	return []badRow{
		{name: "DoInDo", want: is(dedup.ErrInvalid), run: func(w *badWorld) error { return w.do(nested("other")(w)) }},
		{name: "DoInDoSameKey", want: is(dedup.ErrInvalid), run: func(w *badWorld) error { return w.do(nested("k")(w)) }},
		{name: "DoInDoTx", want: is(dedup.ErrInvalid), run: func(w *badWorld) error { return w.doTx(nested("other")(w)) }},
		{name: "DoInDoDerived", want: is(dedup.ErrInvalid), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
				defer cancel()
				return nested("other")(w)(ctx, tx)
			})
		}},
		{name: "DoInDoOtherDeduper", want: is(dedup.ErrInvalid), run: func(w *badWorld) error {
			other := newDeduper(w.t, w.pool, nil)
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.Do(ctx, other, call("other"), effect("other"))
				return err
			})
		}},
		{name: "DoInDoInGoroutine", want: is(dedup.ErrInvalid), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				answer := make(chan error)
				go func() { answer <- nested("other")(w)(ctx, tx) }()
				return <-answer
			})
		}},
		{name: "DoInDoSwallowed", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.do(swallow(nested("other")(w)))
		}},
		{name: "Reentrant", want: is(dedup.ErrInvalid), run: func(w *badWorld) error { return w.do(reentrant(w)) }},
		{name: "ReentrantTx", want: is(dedup.ErrInvalid), run: func(w *badWorld) error { return w.doTx(reentrant(w)) }},
		{name: "ReentrantSwallowed", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error { return w.do(swallow(reentrant(w))) }},
		{name: "ReentrantThroughAnother", want: is(dedup.ErrInvalid), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, w.d, tx, call("other"), reentrant(w).effect())
				return err
			})
		}},
		{name: "ReentrantByOtherDeduper", want: is(dedup.ErrInvalid), run: func(w *badWorld) error {
			other := newDeduper(w.t, w.pool, nil)
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, other, tx, call("k"), effect("k"))
				return err
			})
		}},
		{name: "NestedPanicRecovered", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				err := caught(func() error {
					_, err := dedup.DoTx(ctx, w.d, tx, call("other"), step(func(context.Context, pgx.Tx) error { panic("inner") }).effect())
					return err
				})
				panics("inner")(w.t, err)
				return nil
			})
		}},
		// An inner call whose context ends leaves the outer effect as it was.
		{name: "InnerCancelledBeforeTx", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.doTx(swallow(cancelled(w, true)))
		}},
		{name: "InnerCancelledInTx", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.doTx(swallow(cancelled(w, false)))
		}},
		// And when the outer effect fails of it, nothing of either stays.
		{name: "InnerCancelledBeforeFails", want: is(context.Canceled), run: func(w *badWorld) error { return w.do(cancelled(w, true)) }},
		{name: "InnerCancelledBeforeFailsTx", want: is(context.Canceled), run: func(w *badWorld) error { return w.doTx(cancelled(w, true)) }},
		{name: "InnerCancelledInFails", want: is(context.Canceled), run: func(w *badWorld) error { return w.do(cancelled(w, false)) }},
	}
}

func badTransactions() []badRow {
	doTx := func(w *badWorld, tx pgx.Tx) error {
		_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), effect("k"))
		return err
	}
	return []badRow{
		{name: "TxNil", want: invalidCall("tx"), run: func(w *badWorld) error { return doTx(w, nil) }},
		{name: "TxCommitted", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { require.NoError(w.t, tx.Commit(w.ctx)); return doTx(w, tx) })
		}},
		{name: "TxRolledBack", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { require.NoError(w.t, tx.Rollback(w.ctx)); return doTx(w, tx) })
		}},
		{name: "TxEndedBySQL", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				_, err := tx.Exec(w.ctx, "ROLLBACK")
				require.NoError(w.t, err)
				return doTx(w, tx)
			})
		}},
		{name: "TxEndedSavepoint", want: is(pgx.ErrTxClosed), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				sub, err := tx.Begin(w.ctx)
				require.NoError(w.t, err)
				require.NoError(w.t, sub.Commit(w.ctx))
				err = doTx(w, sub)
				w.requireUsable(tx)
				return err
			})
		}},
		{name: "TxAborted", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { _, _ = tx.Exec(w.ctx, "SELECT 1/0"); return doTx(w, tx) })
		}},
		{name: "TxConnClosed", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { require.NoError(w.t, tx.Conn().Close(w.ctx)); return doTx(w, tx) })
		}},
		{name: "TxBusy", want: invalidCall("tx"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				rows, err := tx.Query(w.ctx, "SELECT generate_series(1, 1000)")
				require.NoError(w.t, err)
				err = doTx(w, tx)
				rows.Close()
				w.requireUsable(tx)
				return err
			})
		}},
		{name: "TxOfAnEffectThatReturned", want: invalidCall("tx"), run: func(w *badWorld) error {
			var kept pgx.Tx
			require.ErrorIs(w.t, w.do(func(ctx context.Context, tx pgx.Tx) error { kept = tx; return errOwn }), errOwn)
			return doTx(w, kept)
		}},
		{name: "TxEffectLeavesRowsOpen", want: is(guard.ErrTxBusy), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), step(func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Query(ctx, "SELECT generate_series(1, 1000)")
					return err
				}).effect())
				return err
			})
		}},
		{name: "TxRolledBackByCaller", want: fine, run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { return doTx(w, tx) })
		}},
	}
}

func badContexts() []badRow {
	// within runs the call and cancels its context when signal closes.
	within := func(w *badWorld, signal <-chan struct{}, s step) error {
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		answer := make(chan error, 1)
		go func() { answer <- w.doCtx(ctx, s) }()
		select {
		case <-signal:
		case err := <-answer:
			require.FailNow(w.t, "the call returned early", "%v", err)
		}
		cancel()
		return <-answer
	}
	nothing := func(context.Context, pgx.Tx) error { return nil }
	held := func(kind faultproxy.Kind, where func(faultproxy.Unit) bool) func(w *badWorld) error {
		return func(w *badWorld) error {
			armed := w.proxy.Arm(faultproxy.Fault{Kind: kind, Where: where})
			defer armed.Release()
			return within(w, armed.Applied(), nothing)
		}
	}
	unknown := func(t *testing.T, err error) {
		t.Helper()
		var outcome *dedup.Error
		require.ErrorAs(t, err, &outcome)
		require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, dedup.IsRetryable(err))
	}
	cause := errors.New("the reason")
	return []badRow{
		{name: "CancelledBefore", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			cancel()
			return w.doCtx(ctx, nothing)
		}},
		{name: "CancelledBeforeWithCause", want: is(context.Canceled, cause), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancelCause(w.ctx)
			cancel(cause)
			return w.doCtx(ctx, nothing)
		}},
		{name: "DeadlineBefore", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			ctx, cancel := context.WithDeadline(w.ctx, time.Now())
			defer cancel()
			return w.doCtx(ctx, nothing)
		}},
		{name: "CancelledInAcquire", want: is(context.Canceled), run: func(w *badWorld) error {
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
		{name: "DeadlineInAcquire", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			for range w.pool.Config().MaxConns {
				conn, err := w.pool.Acquire(w.ctx)
				require.NoError(w.t, err)
				defer conn.Release()
			}
			ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
			defer cancel()
			return w.doCtx(ctx, nothing)
		}},
		{name: "CancelledInOpen", proxied: true, want: is(context.Canceled), run: held(faultproxy.Hold, faultproxy.AtSQL("pg_try_advisory_xact_lock"))},
		{name: "CancelledAfterOpen", proxied: true, want: is(context.Canceled), run: held(faultproxy.ReplyDelayed, faultproxy.AtSQL("pg_try_advisory_xact_lock"))},
		{name: "CancelledInStatement", proxied: true, want: is(context.Canceled), run: held(faultproxy.Hold, faultproxy.AtSQL("insert into effects"))},
		{name: "CancelledAfterStatement", proxied: true, want: is(context.Canceled), run: held(faultproxy.ReplyDelayed, faultproxy.AtSQL("insert into effects"))},
		{name: "CancelledInEffect", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				cancel()
				_, err := tx.Exec(ctx, "SELECT 1")
				return err
			})
		}},
		{name: "CancelledInEffectOwnError", want: is(context.Canceled, errOwn), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(context.Context, pgx.Tx) error { cancel(); return errOwn })
		}},
		{name: "CancelledInEffectFinal", want: is(context.Canceled), run: func(w *badWorld) error {
			ctx, cancel := context.WithCancel(w.ctx)
			return w.doCtx(ctx, func(context.Context, pgx.Tx) error { cancel(); return dedup.Final(errOwn) })
		}},
		{name: "DeadlineInEffect", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
			defer cancel()
			return w.doCtx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
				return err
			})
		}},
		{name: "OwnDeadlineInEffect", want: is(context.DeadlineExceeded), run: func(w *badWorld) error {
			_, err := dedup.Do(w.ctx, w.d, storing("k"), step(func(ctx context.Context, tx pgx.Tx) error {
				ctx, cancel := context.WithDeadline(ctx, time.Now())
				defer cancel()
				_, err := tx.Exec(ctx, "SELECT 1")
				return err
			}).effect())
			return err
		}},
		{name: "CommitDropped", proxied: true, opts: dedup.Options{Retry: dedup.RetryPolicy{BaseDelay: time.Hour, MaxDelay: time.Hour}}, want: unknown,
			run: held(faultproxy.Dropped, faultproxy.AtCommit)},
	}
}

// badSessions do to the session or the schema what an effect should not.
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
	stored("SavepointLeftOpen", "SAVEPOINT a; SAVEPOINT a; ROLLBACK TO a")
	stored("OwnAdvisoryUnlock", "SELECT pg_advisory_unlock_all()")

	add(badRow{name: "SetRole", want: state("42501")}, sql("SET ROLE pg_monitor"))
	add(badRow{name: "SetLocalRole", want: state("42501")}, sql("SET LOCAL ROLE pg_monitor"))
	add(badRow{name: "TableRenamed", want: state("42P01")}, sql("ALTER TABLE tool_dedup RENAME TO gone"))
	add(badRow{name: "TableDropped", want: state("42P01")}, sql("DROP TABLE tool_dedup"))
	add(badRow{name: "DeferredConstraint", want: state("23505")}, sql("CREATE TABLE u (a int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO u VALUES (1), (1)"))
	add(badRow{name: "WritesOwnRecord", want: is(dedup.ErrSchema)}, sql(`INSERT INTO tool_dedup VALUES ('acme', 'create_ticket', 'k', decode(repeat('00', 32), 'hex'), NULL, 'done', '1', now(), now(), now())`))
	add(badRow{name: "RecordRedirected", want: state("0A000")}, sql("CREATE RULE r AS ON INSERT TO tool_dedup DO INSTEAD NOTHING"))
	add(badRow{name: "RecordSwallowed", want: is(dedup.ErrBroken), effects: 1, next: dedup.ErrSchema}, sql(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;
		CREATE TRIGGER no BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION no()`))
	add(badRow{name: "RecordRefused", want: state("P0001")}, sql(`CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$;
		CREATE TRIGGER no BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION no()`))

	twice := dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 2}}
	gaveUp := is(dedup.ErrAttemptsExhausted)
	add(badRow{name: "ReadOnly", want: is(dedup.ErrInvalid)}, sql("SET TRANSACTION READ ONLY"))
	add(badRow{name: "BackendTerminated", opts: twice, want: gaveUp}, sql("SELECT pg_terminate_backend(pg_backend_pid())"))
	add(badRow{name: "BackendTerminatedSwallowed", opts: twice, want: gaveUp}, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
		return nil
	})
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
