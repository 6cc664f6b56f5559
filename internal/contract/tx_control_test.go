package contract_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/sqllex/corpus"
)

// TestControlIsRefused sends every spelling through an effect, in every mode.
func TestControlIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, pool := controlPool(t, mode)
			d, err := dedup.New(pool, nil)
			require.NoError(t, err)

			for i, sql := range corpus.Control {
				var answers []error
				_, err := dedup.Do(ctx, d, dedup.Call{Scope: "s", Tool: "t", Key: fmt.Sprint(i)}, func(ctx context.Context, tx pgx.Tx) (int, error) {
					if _, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, sql); err != nil {
						return 0, err
					}
					answers = controlDoors(ctx, tx, sql)
					return 1, nil // the refusal is not passed on
				})
				for door, answer := range answers {
					require.ErrorIs(t, answer, dedup.ErrTxControl, "%q by door %d", sql, door)
				}
				require.Len(t, answers, 6, "%q", sql)
				require.ErrorIs(t, err, dedup.ErrTxControl, "%q", sql)
			}
			require.Zero(t, controlCount(t, ctx, pool, "effects"))
			require.Zero(t, controlCount(t, ctx, pool, "tool_dedup"))
		})
	}
}

// controlDoors sends sql by every method that takes SQL.
func controlDoors(ctx context.Context, tx pgx.Tx, sql string) []error {
	_, exec := tx.Exec(ctx, sql)
	_, simple := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	rows, query := tx.Query(ctx, sql)
	rows.Close()
	queryRow := tx.QueryRow(ctx, sql).Scan(nil)
	_, prepare := tx.Prepare(ctx, "", sql)
	b := &pgx.Batch{}
	b.Queue("SELECT 1")
	b.Queue(sql)
	batch := tx.SendBatch(ctx, b).Close()
	return []error{exec, simple, query, queryRow, prepare, batch}
}

// TestHarmlessStatements runs every harmless text through an effect.
func TestHarmlessStatements(t *testing.T) {
	t.Parallel()
	ctx, pool := controlPool(t, pgx.QueryExecModeCacheStatement)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	_, err = dedup.Do(ctx, d, dedup.Call{Scope: "s", Tool: "t", Key: "k"}, func(ctx context.Context, tx pgx.Tx) (int, error) {
		for _, sql := range corpus.Harmless {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return 0, fmt.Errorf("%q: %w", sql, err)
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`)
		return 1, err
	})
	require.NoError(t, err)
	require.Equal(t, 1, controlCount(t, ctx, pool, "effects"))
	require.Equal(t, 1, controlCount(t, ctx, pool, "tool_dedup"))
}

func controlPool(t *testing.T, mode pgx.QueryExecMode) (context.Context, *pgxpool.Pool) {
	t.Helper()
	ctx := t.Context()
	pool := pgtest.New(t).Pool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
	_, err := pool.Exec(ctx, corpus.Schema)
	require.NoError(t, err)
	return ctx, pool
}

func controlCount(t *testing.T, ctx context.Context, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize()).Scan(&n))
	return n
}
