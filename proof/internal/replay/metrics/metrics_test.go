package metrics_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/replay/metrics"
)

const page = `# TYPE dedup_calls_total counter
dedup_calls_total{dedup_outcome="executed",gen_ai_tool_name="pay"} 2
dedup_calls_total{dedup_outcome="refused",gen_ai_tool_name="pay"} 1
dedup_calls_total{dedup_outcome="replayed",gen_ai_tool_name="pay"} 3
dedup_calls_total{dedup_outcome="refusal_replayed",gen_ai_tool_name="pay"} 1
dedup_calls_total{dedup_outcome="recovered",gen_ai_tool_name="pay"} 4
dedup_calls_total{dedup_outcome="unknown",gen_ai_tool_name="book"} 5
# TYPE dedup_waits_total counter
dedup_waits_total{dedup_wait_in_process="false",gen_ai_tool_name="book"} 6
dedup_waits_total{dedup_wait_in_process="true",gen_ai_tool_name="book"} 1
`

func TestAddPage(t *testing.T) {
	t.Parallel()
	got := metrics.ByTool{}
	require.NoError(t, got.AddPage([]byte(page)))
	require.Equal(t, metrics.ByTool{
		"pay":  {Calls: 11, Replayed: 4, Recovered: 4},
		"book": {Calls: 5, Unknown: 5, Waits: 7},
	}, got)
	require.NoError(t, got.AddPage([]byte(page)))
	require.Equal(t, metrics.Calls{Calls: 32, Replayed: 8, Recovered: 8, Unknown: 10, Waits: 14}, got.Sum())
	require.InDelta(t, 0.25, got.Sum().DuplicateRate(), 1e-9)
	require.Zero(t, metrics.Calls{}.DuplicateRate())
	require.Error(t, got.AddPage([]byte("no page")))
}

func TestDisagreements(t *testing.T) {
	t.Parallel()
	seen := metrics.ByTool{"pay": {Calls: 3, Replayed: 2}, "book": {Calls: 1}}
	for name, tt := range map[string]struct {
		exported     metrics.ByTool
		all, notLost int // that disagree, and where some may be lost
	}{
		"Equal":  {metrics.ByTool{"pay": {Calls: 3, Replayed: 2}, "book": {Calls: 1}}, 0, 0},
		"Fewer":  {metrics.ByTool{"pay": {Calls: 3, Replayed: 1}}, 2, 0},
		"More":   {metrics.ByTool{"pay": {Calls: 3, Replayed: 3}, "book": {Calls: 1}}, 1, 1},
		"Both":   {metrics.ByTool{"pay": {Calls: 2, Replayed: 2, Waits: 1}, "book": {Calls: 1}}, 1, 1},
		"Others": {metrics.ByTool{"pay": {Calls: 3, Replayed: 2}, "book": {Calls: 1}, "more": {Calls: 1}}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, metrics.Disagreements(seen, tt.exported, false), tt.all)
			require.Len(t, metrics.Disagreements(seen, tt.exported, true), tt.notLost)
		})
	}
}
