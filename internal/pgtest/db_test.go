package pgtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// migrated reports whether the database has the project's table.
func migrated(t *testing.T, db *DB) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var found bool
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT to_regclass('tool_dedup') IS NOT NULL").Scan(&found))
	return found
}

// exists reports whether the server has a database of that name.
func exists(t *testing.T, name string) bool {
	t.Helper()
	admin, err := process.connect()
	require.NoError(t, err)
	var found bool
	require.NoError(t, admin.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&found))
	return found
}

func TestNew(t *testing.T) {
	t.Parallel()

	db := New(t)
	require.True(t, strings.HasPrefix(db.Name, "dedup_test_"))
	require.True(t, strings.HasSuffix(db.Name, "_testnew"))
	require.True(t, migrated(t, db))
	require.False(t, migrated(t, NewEmpty(t)))
}

func TestDatabasesAreSeparateAndDropped(t *testing.T) {
	t.Parallel()

	const tests = 40
	names := make(chan string, tests)
	t.Run("Group", func(t *testing.T) {
		for i := range tests {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				db := New(t)
				pool := db.Pool(t)
				_, err := pool.Exec(t.Context(), "CREATE TABLE only_here ()")
				require.NoError(t, err)
				names <- db.Name
			})
		}
	})
	close(names)
	seen := map[string]bool{}
	for name := range names {
		require.False(t, seen[name])
		seen[name] = true
		require.False(t, exists(t, name), "dropped with its test")
	}
	require.Len(t, seen, tests)
}

func TestDropEndsConnections(t *testing.T) {
	t.Parallel()

	db, err := Create(t.Context())
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()

	require.NoError(t, db.Drop(t.Context()))
	require.False(t, exists(t, db.Name))
	require.Error(t, conn.Ping(t.Context()))
	require.NoError(t, db.Drop(t.Context()), "a second Drop")
}

func TestPool(t *testing.T) {
	t.Parallel()

	db := NewEmpty(t)
	require.EqualValues(t, DefaultMaxConns, db.Pool(t).Config().MaxConns)

	pool := db.Pool(t, func(config *pgxpool.Config) {
		config.MaxConns = 9
		config.ConnConfig.RuntimeParams["application_name"] = "told"
	})
	require.EqualValues(t, 9, pool.Config().MaxConns)
	var name string
	require.NoError(t, pool.QueryRow(t.Context(), "SHOW application_name").Scan(&name))
	require.Equal(t, "told", name)

	var closed *pgxpool.Pool
	t.Run("ClosedByTheTest", func(t *testing.T) { closed = db.Pool(t) })
	require.ErrorContains(t, closed.Ping(t.Context()), "closed pool")
}

func TestDatabaseName(t *testing.T) {
	t.Parallel()

	require.Regexp(t, `^dedup_test_[a-z2-7]{12}_testa_b_case_1$`, databaseName("TestA/b Case#1"))
	long := databaseName("Test" + strings.Repeat("Long", 30))
	require.Len(t, long, 63)
	one, other := databaseName("TestA"), databaseName("TestA")
	require.NotEqual(t, one, other)
}
