package pgtest

import (
	"context"
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
