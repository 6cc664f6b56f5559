package worker_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/migrations"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// TestSchemas requires that a domain's effects and records go to its own schema.
func TestSchemas(t *testing.T) {
	t.Parallel()
	for _, way := range worker.Ways {
		for _, mode := range []worker.Mode{worker.Dedup, worker.Naive} {
			t.Run(string(way)+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				schemas(t, way, mode)
			})
		}
	}
}

func schemas(t *testing.T, way worker.Way, mode worker.Mode) {
	t.Helper()
	rec, err := recording.Small()
	require.NoError(t, err)
	tables, err := migrations.SQL()
	require.NoError(t, err)
	db := pgtest.NewEmpty(t)
	pools := map[string]*pgxpool.Pool{}
	for _, domain := range []string{"airline", "retail"} {
		pool := db.Pool(t, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["search_path"] = domain })
		_, err := pool.Exec(t.Context(), "CREATE SCHEMA "+domain+"; "+tables, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		require.NoError(t, ledger.Create(t.Context(), pool, rec))
		pools[domain] = pool
	}

	b := serve(t, worker.Task{DatabaseURL: db.URL, Name: "worker-test", Mode: mode, Way: way, Schemas: true, Tools: ledger.Tools(rec)})
	write, other := delivery(t, 5), &rec.Sessions[3].Calls[1]
	shop := worker.Delivery{
		Session: other.Session, Turn: other.Turn, ToolCallID: other.ToolCallID, Scope: "retail/demo", Domain: other.Domain,
		Tool: other.Tool, Args: other.Arguments, Ref: ledger.Ref(other),
	}
	require.Contains(t, b.deliver(t, write).Text, "certificate_3221322")
	require.Contains(t, b.deliver(t, shop).Text, "#K1001")
	require.NoError(t, b.end())

	for domain, ref := range map[string]string{"airline": write.Ref, "retail": shop.Ref} {
		var refs []string
		var records int
		require.NoError(t, pools[domain].QueryRow(t.Context(), `SELECT array_agg(ref), (SELECT count(*) FROM tool_dedup) FROM replay_ledger`).Scan(&refs, &records))
		require.Equal(t, []string{ref}, refs)
		require.Equal(t, mode == worker.Dedup, records == 1)
	}
}
