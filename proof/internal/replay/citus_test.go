package replay

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// TestCitusReplay does on a cluster the same as TestReplayThrough on a server.
func TestCitusReplay(t *testing.T) {
	t.Parallel()
	if missing := citusdb.Missing(); missing != "" {
		t.Skip(missing)
	}
	for _, way := range []worker.Way{worker.Registry, worker.HTTP, worker.MCP} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			o := execute(t.Context(), "--citus", "--recording", smallDir, "--through", string(way), "--seed", "7", "--json", "--compare")
			require.Zero(t, o.code, o.stderr)
			var got result
			require.NoError(t, json.Unmarshal([]byte(o.out), &got))
			require.Contains(t, got.Postgres, "Citus")
			require.Equal(t, []int{0, 0, 0}, []int{got.Doubled, got.Wrong, got.Lost}, o.stderr)
			require.Equal(t, checked{Answers: got.Checked.Answers, Effects: 16, Records: 20}, got.Checked)
			require.Equal(t, []int{1, 1}, []int{got.RepeatedWrites, got.RepeatedWritesRan})
			require.Positive(t, got.Faults[terminate])
			require.Positive(t, got.Faults[betweenNodes])
			require.Positive(t, got.Naive.Doubled)
			for _, node := range citusdb.URLs() {
				requireDropped(t, &pgtest.DB{URL: node}, o.stderr)
			}
		})
	}
}
