package replay

import (
	"testing"

	"github.com/stretchr/testify/require"
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
	got := byTool{}
	require.NoError(t, got.addPage([]byte(page)))
	require.Equal(t, byTool{
		"pay":  {Calls: 11, Replayed: 4, Recovered: 4},
		"book": {Calls: 5, Unknown: 5, Waits: 7},
	}, got)
	require.NoError(t, got.addPage([]byte(page)))
	require.Equal(t, counts{Calls: 32, Replayed: 8, Recovered: 8, Unknown: 10, Waits: 14}, got.sum())
	require.InDelta(t, 0.25, got.sum().duplicateRate(), 1e-9)
	require.Zero(t, counts{}.duplicateRate())
	require.Error(t, got.addPage([]byte("no page")))
}

func TestDisagreements(t *testing.T) {
	t.Parallel()
	seen := byTool{"pay": {Calls: 3, Replayed: 2}, "book": {Calls: 1}}
	for name, tt := range map[string]struct {
		exported     byTool
		all, notLost int // tools that disagree, and that disagree if some counts may be lost
	}{
		"Equal":  {byTool{"pay": {Calls: 3, Replayed: 2}, "book": {Calls: 1}}, 0, 0},
		"Fewer":  {byTool{"pay": {Calls: 3, Replayed: 1}}, 2, 0},
		"More":   {byTool{"pay": {Calls: 3, Replayed: 3}, "book": {Calls: 1}}, 1, 1},
		"Both":   {byTool{"pay": {Calls: 2, Replayed: 2, Waits: 1}, "book": {Calls: 1}}, 1, 1},
		"Others": {byTool{"pay": {Calls: 3, Replayed: 2}, "book": {Calls: 1}, "more": {Calls: 1}}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, disagreements(seen, tt.exported, false), tt.all)
			require.Len(t, disagreements(seen, tt.exported, true), tt.notLost)
		})
	}
}
