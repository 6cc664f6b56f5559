package worker_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/migrations"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
	"github.com/tooldedup/dedup/proof/internal/world"
)

// TestSchemas requires that the effects and records of a domain go to its own schema.
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
		require.NoError(t, world.Create(t.Context(), pool, rec))
		pools[domain] = pool
	}

	b := serve(t, worker.Task{DatabaseURL: db.URL, Name: "worker-test", Mode: mode, Way: way, Schemas: true})
	cancelled := worker.Delivery{
		Session: "s", Turn: 4, ToolCallID: "call_1", Scope: "retail/demo", Domain: "retail",
		Tool: "cancel_pending_order", Args: json.RawMessage(`{"order_id":"#K1003","reason":"no longer needed"}`),
		Ref: "cancelled",
	}
	require.Contains(t, b.deliver(t, certificate()).Text, "certificate_3221322")
	require.Contains(t, b.deliver(t, cancelled).Text, "#K1003")
	require.NoError(t, b.end())

	for domain, ref := range map[string]string{"airline": "s/4/call_1", "retail": "cancelled"} {
		var refs []string
		var records int
		require.NoError(t, pools[domain].QueryRow(t.Context(), `SELECT array_agg(call_ref), (SELECT count(*) FROM tool_dedup) FROM effects`).Scan(&refs, &records))
		require.Equal(t, []string{ref}, refs)
		require.Equal(t, mode == worker.Dedup, records == 1)
	}
}
