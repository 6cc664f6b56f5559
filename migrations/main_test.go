package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// exec runs statements in one session.
func exec(t *testing.T, pool *pgxpool.Pool, statements string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

// problems returns what Check finds, nil if nothing.
func problems(t *testing.T, db migrations.Querier, opts *migrations.CheckOptions) []migrations.Problem {
	t.Helper()
	err := migrations.Check(t.Context(), db, opts)
	if err == nil {
		return nil
	}
	var schema *migrations.SchemaError
	require.ErrorAs(t, err, &schema)
	require.NotEmpty(t, schema.Problems)
	for _, p := range schema.Problems {
		require.NotEmpty(t, p.What)
		require.NotEmpty(t, p.Fix)
		require.Contains(t, err.Error(), p.What)
		require.Contains(t, err.Error(), p.Fix)
	}
	return schema.Problems
}

func names(problems []migrations.Problem) []string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Name)
	}
	return all
}

// repair runs the fixes that are statements, and returns the names of the other problems.
func repair(t *testing.T, pool *pgxpool.Pool, problems []migrations.Problem) []string {
	t.Helper()
	var left []string
	for _, p := range problems {
		if statement, ok := strings.CutPrefix(p.Fix, "run: "); ok {
			exec(t, pool, statement)
		} else {
			left = append(left, p.Name)
		}
	}
	return left
}

// newRole creates a role for the test and returns its quoted name. Roles belong to the server, so
// the role has the name of the test's database, and the test's end drops it.
func newRole(t *testing.T, db *pgtest.DB, pool *pgxpool.Pool) string {
	t.Helper()
	role := pgx.Identifier{db.Name}.Sanitize()
	exec(t, pool, "CREATE ROLE "+role)
	t.Cleanup(func() {
		_, err := pool.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	})
	return role
}

// as makes the connections of a pool act as a role.
func as(role string) func(*pgxpool.Config) {
	return func(config *pgxpool.Config) {
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET ROLE "+role)
			return err
		}
	}
}

// param sets a run-time parameter of a pool's connections.
func param(name, value string) func(*pgxpool.Config) {
	return func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams[name] = value }
}

// counting counts the queries that are sent.
type counting struct {
	migrations.Querier
	queries int
}

func (c *counting) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.queries++
	return c.Querier.QueryRow(ctx, sql, args...)
}

// failing answers the nth query with an error.
type failing struct {
	migrations.Querier
	nth int
}

var errFailing = errors.New("the line is dead")

func (f *failing) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if f.nth--; f.nth == 0 {
		return failedRow{}
	}
	return f.Querier.QueryRow(ctx, sql, args...)
}

type failedRow struct{}

func (failedRow) Scan(...any) error { return errFailing }
