package pgtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestCloneWaitsForTheTemplateToBeFree(t *testing.T) {
	t.Parallel()

	// A source that someone is connected to, as autovacuum may be.
	source := NewEmpty(t)
	conn, err := pgx.Connect(t.Context(), source.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	admin, err := process.connect()
	require.NoError(t, err)

	// untilWaiting returns once the server waits for the connection while it makes the database.
	untilWaiting := func(t *testing.T, name string) {
		t.Helper()
		for waits := false; !waits; {
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE 'CREATE DATABASE "' || $1 || '"%')`, name).Scan(&waits))
		}
	}

	t.Run("GivesUpWithItsContext", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		name := databaseName(t.Name())
		cloned := make(chan error, 1)
		go func() { cloned <- process.clone(ctx, admin, name, source.Name) }()
		untilWaiting(t, name)
		cancel()
		require.ErrorIs(t, <-cloned, context.Canceled)
	})

	t.Run("GoesOnWhenItIs", func(t *testing.T) {
		name := databaseName(t.Name())
		cloned := make(chan error, 1)
		go func() { cloned <- process.clone(t.Context(), admin, name, source.Name) }()
		untilWaiting(t, name)
		require.NoError(t, conn.Close(t.Context()))
		require.NoError(t, <-cloned)
		require.NoError(t, (&DB{Name: name, cluster: process}).Drop(t.Context()))
	})
}

// BenchmarkClone compares the strategies by which the server can copy the
// template. FILE_COPY is the only one before PostgreSQL 15.
func BenchmarkClone(b *testing.B) {
	admin, err := process.connect()
	require.NoError(b, err)
	source, err := process.template.ensure(b.Context(), process.url)
	require.NoError(b, err)

	for _, strategy := range []string{"WAL_LOG", "FILE_COPY"} {
		b.Run(strategy, func(b *testing.B) {
			for b.Loop() {
				name := databaseName(b.Name())
				_, err := admin.Exec(b.Context(), fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY %s", name, source, strategy))
				require.NoError(b, err)
				b.StopTimer()
				require.NoError(b, (&DB{Name: name, cluster: process}).Drop(b.Context()))
				b.StartTimer()
			}
		})
	}
}
