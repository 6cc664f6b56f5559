package contract_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/sqllex/corpus"
)

// textRow is how a statement's row arrives: byte for byte.
type textRow = json.RawMessage

// TestStatementTexts runs every text that is taken, as one statement with its
// record and apart, and compares what it gives and leaves.
func TestStatementTexts(t *testing.T) {
	t.Parallel()

	require.Greater(t, len(corpus.Taken)+len(corpus.Refused), 120)
	for name, separate := range map[string]bool{"Whole": false, "Separate": true} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
			t.Run(name+"-"+mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				pool := pgtest.New(t).Pool(t, func(config *pgxpool.Config) { config.ConnConfig.DefaultQueryExecMode = mode })
				for _, sql := range []string{
					`CREATE TABLE t (n int, s text)`,
					`CREATE FUNCTION leave(n int) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (n) RETURNING n'`,
				} {
					_, err := pool.Exec(ctx, sql)
					require.NoError(t, err)
				}
				d, err := dedup.New(pool, &dedup.Options{SeparateStatements: separate})
				require.NoError(t, err)
				for i, c := range corpus.Taken {
					_, err := pool.Exec(ctx, `WITH gone AS (DELETE FROM t) INSERT INTO t VALUES (1, 'one')`)
					require.NoError(t, err)
					call := dedup.Call{Scope: "s", Tool: "t", Key: fmt.Sprint(i)}
					result, err := dedup.DoStatement[textRow](ctx, d, call, dedup.SQL(c.SQL, c.Args...))
					if c.Row == corpus.NoRow {
						require.ErrorIs(t, err, pgx.ErrNoRows, c.SQL)
						continue
					}
					require.NoError(t, err, c.SQL)
					require.Equal(t, c.Row, string(result.Value), c.SQL)
					if c.SQL != corpus.ConfusesPgx || mode != pgx.QueryExecModeSimpleProtocol {
						require.Equal(t, 1, result.Attempts, c.SQL)
					}
					var left int
					require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM t WHERE n < 0`).Scan(&left))
					require.Equal(t, c.Left, left, c.SQL)

					again, err := dedup.DoStatement[textRow](ctx, d, call, dedup.SQL(c.SQL, c.Args...))
					require.NoError(t, err, c.SQL)
					require.True(t, again.Replayed, c.SQL)
					require.Equal(t, c.Row, string(again.Value), c.SQL)
					require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM t WHERE n < 0`).Scan(&left))
					require.Equal(t, c.Left, left, "after the replay of %s", c.SQL)
				}
			})
		}
	}
}

// TestStatementTextsRefused uses a pool that leads nowhere.
func TestStatementTextsRefused(t *testing.T) {
	t.Parallel()

	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	for _, c := range corpus.Refused {
		_, err := dedup.DoStatement[textRow](t.Context(), d, dedup.Call{Scope: "s", Tool: "t", Key: "k"}, dedup.SQL(c.SQL, c.Args...))
		var invalid *dedup.InvalidCallError
		require.ErrorAs(t, err, &invalid, c.SQL)
		require.Equal(t, "Statement", invalid.Field, c.SQL)
		require.ErrorContains(t, err, c.Says, c.SQL)
	}
	require.Zero(t, pool.Stat().NewConnsCount())
	require.Zero(t, pool.Stat().AcquireCount())
}
