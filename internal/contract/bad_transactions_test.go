package contract_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
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
		{name: "DoInDo", want: is(dedup.ErrNested), run: func(w *badWorld) error { return w.do(nested("other")(w)) }},
		{name: "DoInDoSameKey", want: is(dedup.ErrNested), run: func(w *badWorld) error { return w.do(nested("k")(w)) }},
		{name: "DoInDoTx", want: is(dedup.ErrNested), run: func(w *badWorld) error { return w.doTx(nested("other")(w)) }},
		{name: "DoInDoDerived", want: is(dedup.ErrNested), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
				defer cancel()
				return nested("other")(w)(ctx, tx)
			})
		}},
		{name: "DoInDoOtherDeduper", want: is(dedup.ErrNested), run: func(w *badWorld) error {
			other := newDeduper(w.t, w.pool, nil)
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.Do(ctx, other, call("other"), effect("other"))
				return err
			})
		}},
		{name: "DoInDoInGoroutine", want: is(dedup.ErrNested), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				answer := make(chan error)
				go func() { answer <- nested("other")(w)(ctx, tx) }()
				return <-answer
			})
		}},
		{name: "DoInDoSwallowed", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.do(swallow(nested("other")(w)))
		}},
		{name: "Reentrant", want: is(dedup.ErrReentrant), run: func(w *badWorld) error { return w.do(reentrant(w)) }},
		{name: "ReentrantTx", want: is(dedup.ErrReentrant), run: func(w *badWorld) error { return w.doTx(reentrant(w)) }},
		{name: "ReentrantSwallowed", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error { return w.do(swallow(reentrant(w))) }},
		{name: "ReentrantThroughAnother", want: is(dedup.ErrReentrant), run: func(w *badWorld) error {
			return w.do(func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, w.d, tx, call("other"), reentrant(w).effect())
				return err
			})
		}},
		{name: "ReentrantByOtherDeduper", want: is(dedup.ErrReentrant), run: func(w *badWorld) error {
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
		{name: "InnerCancelledBefore", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.do(swallow(cancelled(w, true)))
		}},
		{name: "InnerCancelledBeforeTx", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.doTx(swallow(cancelled(w, true)))
		}},
		{name: "InnerCancelledIn", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.do(swallow(cancelled(w, false)))
		}},
		{name: "InnerCancelledInTx", want: fine, records: 1, effects: 1, replays: true, run: func(w *badWorld) error {
			return w.doTx(swallow(cancelled(w, false)))
		}},
		// And when the outer effect fails of it, nothing of either stays.
		{name: "InnerCancelledBeforeFails", want: is(context.Canceled), run: func(w *badWorld) error { return w.do(cancelled(w, true)) }},
		{name: "InnerCancelledBeforeFailsTx", want: is(context.Canceled), run: func(w *badWorld) error { return w.doTx(cancelled(w, true)) }},
		{name: "InnerCancelledInFails", want: is(context.Canceled), run: func(w *badWorld) error { return w.do(cancelled(w, false)) }},
		{name: "InnerCancelledInFailsTx", want: is(context.Canceled), run: func(w *badWorld) error { return w.doTx(cancelled(w, false)) }},
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
		{name: "TxReadOnly", want: state("25006"), run: func(w *badWorld) error {
			tx, err := w.pool.BeginTx(w.ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
			require.NoError(w.t, err)
			defer tx.Rollback(w.ctx)
			return doTx(w, tx)
		}},
		{name: "TxEffectLeavesRowsOpen", want: is(dedup.ErrTxBusy), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), step(func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Query(ctx, "SELECT generate_series(1, 1000)")
					return err
				}).effect())
				return err
			})
		}},
		{name: "TxContextEndedBefore", want: is(context.Canceled), run: func(w *badWorld) error {
			// The first call of a Deduper looks at the table.
			require.NoError(w.t, w.inTx(func(tx pgx.Tx) error {
				_, err := dedup.DoTx(w.ctx, w.d, tx, call("another"), effect("another"))
				return err
			}))
			return w.inTx(func(tx pgx.Tx) error {
				ctx, cancel := context.WithCancel(w.ctx)
				cancel()
				_, err := dedup.DoTx(ctx, w.d, tx, call("k"), effect("k"))
				w.requireUsable(tx)
				return err
			})
		}},
		{name: "TxContextEndedInEffect", want: is(context.Canceled), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				ctx, cancel := context.WithCancel(w.ctx)
				_, err := dedup.DoTx(ctx, w.d, tx, call("k"), step(func(ctx context.Context, tx pgx.Tx) error { cancel(); return ctx.Err() }).effect())
				w.requireUsable(tx)
				return err
			})
		}},
		{name: "TxContextEndedAfterEffect", want: is(context.Canceled), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				ctx, cancel := context.WithCancel(w.ctx)
				_, err := dedup.DoTx(ctx, w.d, tx, call("k"), step(func(ctx context.Context, tx pgx.Tx) error { cancel(); return nil }).effect())
				w.requireUsable(tx)
				return err
			})
		}},
		{name: "TxRolledBackByCaller", want: fine, run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error { return doTx(w, tx) })
		}},
	}
}
