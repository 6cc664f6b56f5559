package migrate_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/cmd/dedup/internal/migrate"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is a database of a test, and the program run on it.
type bundle struct {
	db   *pgtest.DB
	pool *pgxpool.Pool
}

// setup returns a database without the schema.
func setup(t *testing.T) *bundle {
	t.Helper()
	db := pgtest.NewEmpty(t)
	return &bundle{db: db, pool: db.Pool(t)}
}

// outcome is how the program ended.
type outcome struct {
	code        int
	out, errOut string
}

// migrate runs `dedup migrate` with the arguments on the test's database.
func (b *bundle) migrate(t *testing.T, args ...string) outcome {
	t.Helper()
	return run(t.Context(), append(args, "--database-url", b.db.URL)...)
}

// fine runs it and requires that all is well.
func (b *bundle) fine(t *testing.T, args ...string) string {
	t.Helper()
	got := b.migrate(t, args...)
	require.Empty(t, got.errOut)
	require.Equal(t, exit.OK, got.code)
	return got.out
}

// fails runs it and requires that it fails, and prints nothing else.
func (b *bundle) fails(t *testing.T, args ...string) string {
	t.Helper()
	got := b.migrate(t, args...)
	require.Equal(t, exit.Failed, got.code, got.out)
	require.Empty(t, got.out)
	return got.errOut
}

func run(ctx context.Context, args ...string) outcome {
	var out, errOut bytes.Buffer
	code := cli.Run(ctx, append([]string{"migrate"}, args...), cli.Streams{Out: &out, Err: &errOut}, migrate.Command())
	return outcome{code, out.String(), errOut.String()}
}

func (b *bundle) exec(t *testing.T, statements string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

// relations are the tables and indexes that are there.
func (b *bundle) relations(t *testing.T) []string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `
		SELECT relnamespace::regnamespace || '.' || relname
		FROM pg_class
		WHERE relkind IN ('r', 'i') AND relnamespace::regnamespace::text !~ '^(pg_|information_schema)'
		ORDER BY 1`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

// records returns the number of rows in tool_dedup.
func (b *bundle) records(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM tool_dedup`).Scan(&n))
	return n
}
