package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// firstUses are the ways to make BeginFunc send BEGIN. Each leaves an effect "k" unless it is
// refused, and ignores errors.
var firstUses = map[string]func(ctx context.Context, f *fixture, tx pgx.Tx){
	"Statement": func(ctx context.Context, _ *fixture, tx pgx.Tx) { _ = leaveK(ctx, tx) },
	"Batch": func(ctx context.Context, _ *fixture, tx pgx.Tx) {
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO effects (ref) VALUES ('k')`)
		_ = tx.SendBatch(ctx, b).Close()
	},
	"Savepoint": func(ctx context.Context, _ *fixture, tx pgx.Tx) {
		_ = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return leaveK(ctx, tx) })
	},
	"CopyFrom": func(ctx context.Context, _ *fixture, tx pgx.Tx) {
		_, _ = tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"ref"}, pgx.CopyFromRows([][]any{{"k"}}))
	},
	"Conn": func(ctx context.Context, _ *fixture, tx pgx.Tx) { _ = leaveK(ctx, tx.Conn()) },
	"LargeObjects": func(ctx context.Context, _ *fixture, tx pgx.Tx) {
		objects := tx.LargeObjects()
		_, _ = objects.Create(ctx, 0)
		_ = leaveK(ctx, tx)
	},
	"DoTx": func(ctx context.Context, f *fixture, tx pgx.Tx) {
		_, _ = dedup.DoTx(ctx, f.d, tx, call("k"), effect("k"))
	},
}

var isBegin = faultproxy.AtSQL("begin isolation level")

// TestBeginFuncLosesBegin: a transaction that could not be begun is not committed, whatever the
// function returns. After a fault it is begun anew.
func TestBeginFuncLosesBegin(t *testing.T) {
	t.Parallel()
	for order, mode := range map[orderKind]pgx.QueryExecMode{
		lockFirst: pgx.QueryExecModeCacheStatement, claimFirst: pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(fmt.Sprint(order, "-", mode), func(t *testing.T) {
			t.Parallel()
			p := profile{order: order, isolation: pgx.ReadCommitted, mode: mode}
			ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry})
			f.warm(t)
			no := wireAnswer(t, &pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "42501", Message: "no"}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
			for name, use := range firstUses {
				for _, fault := range []faultproxy.Fault{
					{Kind: faultproxy.ReplyReset}, {Kind: faultproxy.Dropped}, {Kind: faultproxy.ReplyCut},
					{Kind: faultproxy.Dropped, Answer: no},
				} {
					t.Run(fmt.Sprint(name, "-", fault.Kind, "-", fault.Answer != nil), func(t *testing.T) { // one after the other: they share the proxy
						f.exec(t, `DELETE FROM effects; DELETE FROM tool_dedup`)
						for _, returned := range []error{nil, errOwn} {
							fault.Where = isBegin
							armed := proxy.Arm(fault)
							runs := 0
							err := f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
								if runs++; runs == 1 {
									use(ctx, f, tx)
									use(ctx, f, tx)
									return returned
								}
								return errStop
							})
							require.Equal(t, 1, armed.Count())
							if fault.Answer == nil {
								require.ErrorIs(t, err, errStop)
								require.Equal(t, 2, runs)
							} else {
								requireState(t, err, "42501")
								require.Equal(t, 1, runs)
							}
							require.Zero(t, f.effects(t, "k"))
							require.Zero(t, f.records(t))
						}
					})
				}
			}
		})
	}
}

// errStop ends a function of BeginFunc.
var errStop = errors.New("stop")

// TestBeginFuncLosesCommit breaks COMMIT after each first use. BeginFunc never reports a committed
// transaction as rolled back, or the reverse.
func TestBeginFuncLosesCommit(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, profile{isolation: pgx.ReadCommitted, mode: mode}, &dedup.Options{Retry: quickRetry})
			f.warm(t)
			for name, use := range firstUses {
				for fault, effects := range map[faultproxy.Kind]int{faultproxy.ReplyReset: 1, faultproxy.ReplyCut: 1, faultproxy.Dropped: 0} {
					t.Run(name+"-"+string(fault), func(t *testing.T) { // one after the other: they share the proxy
						f.exec(t, `DELETE FROM effects; DELETE FROM tool_dedup`)
						armed := proxy.Arm(faultproxy.Fault{Kind: fault, Where: faultproxy.AtCommit})
						runs := 0
						err := f.d.BeginFunc(ctx, func(tx pgx.Tx) error { runs++; use(ctx, f, tx); return nil })
						require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
						require.True(t, dedup.IsRetryable(err))
						require.Equal(t, 1, runs)
						require.NoError(t, armed.WaitSettled(ctx))
						require.Equal(t, effects, f.effects(t, "k"))
					})
				}
			}
		})
	}
}

// TestBeginFuncDiscards: BEGIN and COMMIT do not depend on prepared statements.
func TestBeginFuncDiscards(t *testing.T) {
	t.Parallel()
	for _, mode := range execModes {
		for _, order := range []orderKind{lockFirst, claimFirst} {
			t.Run(mode.String()+"-"+string(order), func(t *testing.T) {
				t.Parallel()
				ctx, f := profile{order: order, isolation: pgx.ReadCommitted, mode: mode}.setup(t, nil, poolOfOne)
				discard := func(on dbtx) {
					_, err := on.Exec(ctx, `DEALLOCATE ALL`, pgx.QueryExecModeSimpleProtocol)
					require.NoError(t, err)
				}
				use := firstUses["DoTx"]
				for range 2 { // prepares statements
					require.NoError(t, f.d.BeginFunc(ctx, func(tx pgx.Tx) error { use(ctx, f, tx); return nil }))
					f.exec(t, `DELETE FROM effects; DELETE FROM tool_dedup`)
				}
				for _, first := range []bool{true, false} {
					discard(f.pool)
					require.NoError(t, f.d.BeginFunc(ctx, func(tx pgx.Tx) error {
						if first {
							_, err := dedup.DoTx(ctx, f.d, tx, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
								_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`, pgx.QueryExecModeSimpleProtocol)
								return ticket{}, err
							})
							require.NoError(t, err)
						} else {
							_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`, pgx.QueryExecModeSimpleProtocol)
							require.NoError(t, err)
						}
						discard(tx)
						return nil
					}))
				}
				require.Equal(t, 2, f.effects(t, "k"))
				require.Equal(t, 1, f.records(t))
			})
		}
	}
}
