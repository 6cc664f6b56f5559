package faultproxy_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// threeTrips is a transaction in this project's way: the first batch begins it and the last one
// ends it.
func threeTrips(t *testing.T, b *bundle, conn *pgx.Conn, key string) {
	t.Helper()
	first := &pgx.Batch{}
	first.Queue("BEGIN")
	first.Queue("SELECT key FROM done WHERE key = $1", key)
	require.NoError(t, conn.SendBatch(b.ctx, first).Close())
	_, err := conn.Exec(b.ctx, "SELECT pg_advisory_xact_lock($1)", 1)
	require.NoError(t, err)
	last := &pgx.Batch{}
	last.Queue("INSERT INTO done VALUES ($1)", key)
	last.Queue("COMMIT")
	require.NoError(t, conn.SendBatch(b.ctx, last).Close())
}

func TestCounts(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for mode, trips := range map[pgx.QueryExecMode]struct{ cold, warm int }{
		pgx.QueryExecModeCacheStatement: {6, 3},
		pgx.QueryExecModeCacheDescribe:  {6, 3},
		pgx.QueryExecModeDescribeExec:   {6, 6},
		pgx.QueryExecModeExec:           {3, 3},
		pgx.QueryExecModeSimpleProtocol: {3, 3},
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			p := b.proxy(t)
			conn := b.connect(t, p, mode)
			threeTrips(t, b, conn, t.Name()+"/cold")
			cold := p.Snapshot()
			require.Equal(t, trips.cold, cold.RoundTrips)
			require.Equal(t, 1, cold.Connections)

			p.Reset()
			threeTrips(t, b, conn, t.Name()+"/warm")
			warm := p.Snapshot()
			require.Equal(t, trips.warm, warm.RoundTrips)
			require.Equal(t, trips.warm, warm.Units)
			require.Equal(t, 1, warm.Commits)
			require.Equal(t, 1, warm.Committed)
			require.Zero(t, warm.Connections, "no second connection")
			require.Zero(t, warm.Cancels)
			require.Empty(t, warm.Faults)
			if mode != pgx.QueryExecModeSimpleProtocol { // the simple protocol puts the arguments into the texts
				require.Equal(t, []string{
					"BEGIN", "SELECT key FROM done WHERE key = $1", "SELECT pg_advisory_xact_lock($1)",
					"INSERT INTO done VALUES ($1)", "COMMIT",
				}, warm.Statements)
			}
			require.Equal(t, 1, warm.Used)
		})
	}
}

func TestCountsOfConnections(t *testing.T) {
	t.Parallel()

	b := setup(t)
	p := b.proxy(t)
	one, two := b.connect(t, p, pgx.QueryExecModeExec), b.connect(t, p, pgx.QueryExecModeExec)
	require.Zero(t, p.Snapshot().Used)
	threeTrips(t, b, one, "one")
	require.Equal(t, 1, p.Snapshot().Used)
	statements := len(p.Snapshot().Statements)
	require.NoError(t, two.Ping(b.ctx))

	seen := p.Snapshot()
	require.Equal(t, 2, seen.Connections)
	require.Equal(t, 2, seen.Used)
	require.Equal(t, 4, seen.RoundTrips)
	require.Len(t, seen.Statements, statements, "a comment is no statement")
	p.Reset()
	require.Zero(t, p.Snapshot().Used)
}
