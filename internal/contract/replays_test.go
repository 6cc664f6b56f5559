package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// written counts the rows written to a table, including those rolled back.
type written struct{ Inserted, Updated, Deleted int64 }

// TestReplaysWriteNothing: a duplicate's statement does not run, unless it races. No row is
// written and taken back, and no number of a sequence is used, by replays through every
// function.
func TestReplaysWriteNothing(t *testing.T) {
	t.Parallel()
	replaysWriteNothing(t, 10, []orderKind{lockFirst}, []bool{false}, map[string][2]int{"Fresh": {}})
}

// TestLongReplaysWriteNothing has 1,920 replays, looked up first or not, whatever the Deduper has
// done before: so many first calls, and so many replays.
func TestLongReplaysWriteNothing(t *testing.T) {
	t.Parallel()
	replaysWriteNothing(t, 40, []orderKind{lockFirst, claimFirst}, []bool{false, true},
		map[string][2]int{"Fresh": {}, "AfterFirstCalls": {40, 0}, "AfterReplays": {0, 40}})
}

func replaysWriteNothing(t *testing.T, replays int, orders []orderKind, lookFirsts []bool, warmUps map[string][2]int) {
	t.Helper()
	each := func(do way) func(context.Context, *dedup.Deduper, []dedup.StatementCall) error {
		return func(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) error {
			for _, c := range calls {
				if _, err := do(ctx, d, c.Call); err != nil {
					return err
				}
			}
			return nil
		}
	}
	ways := map[string]func(context.Context, *dedup.Deduper, []dedup.StatementCall) error{
		"Do": each(byDo), "DoTx": each(byTx), "DoStatement": each(byStatement),
		"DoBatch": func(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) error {
			_, err := byBatch(ctx, d, calls)
			return err
		},
	}
	for _, order := range orders {
		for way, run := range ways {
			for _, lookFirst := range lookFirsts {
				for warmUp, before := range warmUps {
					t.Run(fmt.Sprintf("%s/%s/%s/LookFirst=%t", order, way, warmUp, lookFirst), func(t *testing.T) {
						t.Parallel()
						ctx, f := profile{order: order, isolation: pgx.ReadCommitted}.setup(t, nil)
						known, fresh := singles("k", replays), singles("fresh", before[0])
						for i := range known {
							known[i].Call.LookFirst = lookFirst
						}
						require.NoError(t, run(ctx, f.d, known))
						was := f.written(t)

						d := f.peer(t)
						require.NoError(t, run(ctx, d, fresh))
						if before[1] > 0 {
							require.NoError(t, run(ctx, d, known))
						}
						require.NoError(t, run(ctx, d, known))
						now := f.written(t)

						firsts := int64(before[0])
						for table, want := range was {
							want.Inserted += firsts
							want.Updated += firsts * was[table].Updated / int64(replays) // with claims, the claim's row is updated once
							require.Equal(t, want, now[table], table)
						}
						require.Equal(t, int64(replays)+firsts, scalar[int64](t, f.bundle, `SELECT last_value FROM runs`))
					})
				}
			}
		}
	}
}

// written waits until every connection has ended, which hands its counts in, and returns them by
// table. Before PostgreSQL 15 a process collects the counts: those of a last connection come behind
// the others.
func (f *fixture) written(t *testing.T) map[string]written {
	t.Helper()
	f.endConnections(t)
	last, err := pgx.Connect(t.Context(), f.db.URL)
	require.NoError(t, err)
	_, err = last.Exec(t.Context(), `CREATE TABLE last (n int); INSERT INTO last VALUES (1)`)
	require.NoError(t, err)
	require.NoError(t, last.Close(t.Context()))
	f.eventually(t, `SELECT EXISTS (SELECT FROM pg_stat_user_tables WHERE relname = 'last' AND n_tup_ins = 1)`)
	_, err = f.observer.Exec(t.Context(), `DROP TABLE last`)
	require.NoError(t, err)
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
