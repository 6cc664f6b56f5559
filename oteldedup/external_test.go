package oteldedup_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/oteldedup"
)

// TestObserveExternal reports open and parked effects, and no answered ones.
func TestObserveExternal(t *testing.T) {
	t.Parallel()

	o := newObserved(t)
	tracer, err := oteldedup.New(&oteldedup.Options{TracerProvider: o.traces, MeterProvider: o.provider})
	require.NoError(t, err)
	tools, err := external.New(o.d, nil)
	require.NoError(t, err)
	require.NoError(t, tracer.ObserveExternal(tools))
	ages := func() map[string]float64 { return o.points(t, "dedup.external.open.age.max") }
	require.Equal(t, map[string]float64{"dedup.external.state=open": 0, "dedup.external.state=parked": 0}, ages())

	_, err = o.pool.Exec(t.Context(), `INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at, due_at, twice) VALUES
		('acme', 'pay', 'a', 'running', 1, 0, false, '', now() - interval '2 hours', now(), now(), NULL),
		('acme', 'pay', 'b', 'pending', 1, 0, false, '', now() - interval '1 hour', now(), now(), NULL),
		('acme', 'pay', 'c', 'parked', 1, 0, false, '', now() - interval '9 hours', now() - interval '3 hours', NULL, NULL),
		('acme', 'pay', 'd', 'done', 1, 0, false, '', now() - interval '9 hours', now() - interval '4 hours', NULL, 'ch_2'),
		('acme', 'pay', 'e', 'done', 1, 0, false, '', now() - interval '9 hours', now() - interval '5 hours', now(), NULL)`)
	require.NoError(t, err)
	_, err = o.pool.Exec(t.Context(), `INSERT INTO tool_dedup SELECT 'acme', 'book', k, '', NULL, 'broken', NULL, '2026-01-01', now() + interval '1 day', now() + interval '2 days' FROM unnest(ARRAY['x', 'y', 'z']) k;
		INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
		SELECT now(), 'app', 'app', 'broken', scope, tool, key, outcome, created_at, 'why' FROM tool_dedup WHERE key <> 'z'`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{
		"dedup.stuck.kind=broken,gen_ai.tool.name=book": 2, "dedup.stuck.kind=parked,gen_ai.tool.name=pay": 1, "dedup.stuck.kind=twice,gen_ai.tool.name=pay": 1,
	}, o.points(t, "dedup.stuck"))
	_, err = o.pool.Exec(t.Context(), `UPDATE tool_dedup SET outcome = 'done' WHERE key = 'x'`)
	require.NoError(t, err)
	require.Equal(t, 1.0, o.points(t, "dedup.stuck")["dedup.stuck.kind=broken,gen_ai.tool.name=book"])
	got := ages()
	require.InDelta(t, 2*3600, got["dedup.external.state=open"], 600)
	require.InDelta(t, 3*3600, got["dedup.external.state=parked"], 600)
}
