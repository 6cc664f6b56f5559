package contract_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// written is what has been written to a table, rolled back or not.
type written struct{ Inserted, Updated, Deleted int64 }

// TestLongReplaysWriteNothing: a duplicate's statement does not run, unless it races. No
// row is written and taken back, and no number of a sequence is used, by 10,200 replays
// through every function, looked up first or not, whatever the Deduper has done before.
func TestLongReplaysWriteNothing(t *testing.T) {
	t.Parallel()

	const replays = 170
	ways := map[string]func(ctx context.Context, f *fixture, d *dedup.Deduper, calls []dedup.StatementCall) error{
		"Do": func(ctx context.Context, _ *fixture, d *dedup.Deduper, calls []dedup.StatementCall) error {
			return eachOf(calls, func(c dedup.StatementCall) error {
				_, err := dedup.Do(ctx, d, c.Call, effectOf(c))
				return err
			})
		},
		"DoTx": func(ctx context.Context, f *fixture, d *dedup.Deduper, calls []dedup.StatementCall) error {
			return eachOf(calls, func(c dedup.StatementCall) error {
				return pgx.BeginFunc(ctx, d.Pool(), func(tx pgx.Tx) error {
					_, err := dedup.DoTx(ctx, d, tx, c.Call, effectOf(c))
					return err
				})
			})
		},
		"DoStatement": func(ctx context.Context, _ *fixture, d *dedup.Deduper, calls []dedup.StatementCall) error {
			return eachOf(calls, func(c dedup.StatementCall) error {
				_, err := dedup.DoStatement[ticket](ctx, d, c.Call, c.Statement)
				return err
			})
		},
		"DoBatch": func(ctx context.Context, _ *fixture, d *dedup.Deduper, calls []dedup.StatementCall) error {
			for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(calls), nil) {
				if out.Err != nil {
					return out.Err
				}
			}
			return nil
		},
	}
	// What the Deduper has done before, as how many first calls and then replays.
	warmUps := map[string][2]int{"Fresh": {}, "AfterFirstCalls": {200, 0}, "AfterReplays": {0, 200}}
	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		for way, run := range ways {
			for _, lookFirst := range []bool{false, true} {
				for warmUp, before := range warmUps {
					t.Run(fmt.Sprintf("%s/%s/%s/LookFirst=%t", order, way, warmUp, lookFirst), func(t *testing.T) {
						t.Parallel()
						ctx, f := profile{order: order, isolation: pgx.ReadCommitted}.setup(t, nil)
						f.exec(t, fixtureSQL)
						known, fresh := singles("k", replays), singles("fresh", before[0])
						for i := range known {
							known[i].Call.LookFirst = lookFirst
						}
						require.NoError(t, run(ctx, f, f.d, known))
						was := f.written(t)

						d := f.peer(t)
						require.NoError(t, run(ctx, f, d, fresh))
						if before[1] > 0 {
							require.NoError(t, run(ctx, f, d, known))
						}
						require.NoError(t, run(ctx, f, d, known))
						now := f.written(t)

						firsts := int64(before[0])
						for table, want := range was {
							want.Inserted += firsts
							want.Updated += firsts * was[table].Updated / replays // a claim is completed, where one is made
							require.Equal(t, want, now[table], table)
						}
						require.Equal(t, replays+firsts, scalar[int64](t, f.bundle, `SELECT last_value FROM runs`))
					})
				}
			}
		}
	}
}

func eachOf(calls []dedup.StatementCall, do func(dedup.StatementCall) error) error {
	for _, c := range calls {
		if err := do(c); err != nil {
			return err
		}
	}
	return nil
}

// effectOf is a statement as an effect.
func effectOf(c dedup.StatementCall) dedup.Effect[ticket] {
	return func(ctx context.Context, tx pgx.Tx) (made ticket, err error) {
		err = tx.QueryRow(ctx, c.Statement.SQL, c.Statement.Args...).Scan(&made.ID, &made.Title)
		return made, err
	}
}

// written waits until every connection has ended, which hands its counts in, and returns
// them by table.
func (f *fixture) written(t *testing.T) map[string]written {
	t.Helper()
	f.endConnections(t)
	conn, err := pgx.Connect(t.Context(), f.db.URL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := conn.Query(t.Context(), `SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables WHERE relname IN ('effects', 'tool_dedup')`)
	require.NoError(t, err)
	all := map[string]written{}
	var name string
	var w written
	_, err = pgx.ForEachRow(rows, []any{&name, &w.Inserted, &w.Updated, &w.Deleted}, func() error {
		all[name] = w
		return nil
	})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Positive(t, all["effects"].Inserted)
	return all
}

// endConnections ends the connections to the database, and waits for their end.
func (f *fixture) endConnections(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.db.URL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	f.pool.Reset()
	for ended := false; !ended; {
		err := conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&ended)
		require.NoError(t, err)
	}
}
