package pgbouncer_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgbouncer"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Two clients, one after the other, get the same server connection, and neither
// is disconnected: that is transaction pooling.
func TestTransactionsArePooled(t *testing.T) {
	t.Parallel()

	db := pgtest.NewEmpty(t)
	b := pgbouncer.New(t, db.URL)
	through, err := b.URL(db.URL)
	require.NoError(t, err)
	config, err := pgx.ParseConfig(through)
	require.NoError(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec

	var pids [2]int
	for i := range pids {
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pids[i]))
	}
	require.Equal(t, pids[0], pids[1])
}
