package pgtest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// DefaultMaxConns is the number of connections of a test's pool: few, as many
// tests run in parallel on one server.
const DefaultMaxConns = 4

// Pool returns a pool of at most [DefaultMaxConns] connections to the database.
// Options may change its configuration. The pool is closed when the test ends,
// and that waits for every connection to be given back.
func (db *DB) Pool(tb testing.TB, opts ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		tb.Fatalf("reading the database's URL: %v", err)
	}
	config.MaxConns = DefaultMaxConns
	for _, opt := range opts {
		opt(config)
	}
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatalf("opening a pool: %v", err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// Example returns a pool to a new database, see [Create], after it ran the statements. drop closes
// the pool and drops the database. An Example cannot report an error, so both panic.
func Example(setup ...string) (pool *pgxpool.Pool, drop func()) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	db, err := Create(ctx)
	must(err)
	pool, err = pgxpool.New(ctx, db.URL)
	must(err)
	_, err = pool.Exec(ctx, strings.Join(setup, ";\n"))
	must(err)
	return pool, func() {
		pool.Close()
		must(db.Drop(ctx))
	}
}

// PlayEngine has the library take the database for one of an engine: "postgres", "citus" or
// "other". Connections that are made afterwards see it.
func (db *DB) PlayEngine(tb testing.TB, engine string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), db.URL)
	require.NoError(tb, err)
	defer func() { _ = conn.Close(context.WithoutCancel(tb.Context())) }()
	_, err = conn.Exec(tb.Context(), "ALTER DATABASE "+pgx.Identifier{db.Name}.Sanitize()+" SET tool_dedup.engine = '"+engine+"'")
	require.NoError(tb, err)
}
