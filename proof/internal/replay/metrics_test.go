package replay

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestReplayMetrics compares the workers' counts in Prometheus with their answers. They are equal
// if no process is killed, and otherwise not higher. The driver counts replays, recoveries and
// unknown outcomes by results and errors.
func TestReplayMetrics(t *testing.T) {
	t.Parallel()
	testReplayMetrics(t, withoutKills, "1")
}

func TestLongReplayMetrics(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ faults, attempts string }{
		"Faults":       {withoutKills, "0"},
		"Kills":        {"all", "0"},
		"OneAndKilled": {"all", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testReplayMetrics(t, tt.faults, tt.attempts)
		})
	}
}

const withoutKills = "lost-answer,cut-before-commit,terminate,delayed-commit,lost-reply,twins2,twins8"

// testReplayMetrics: with one attempt, callers get the unknown outcomes.
func testReplayMetrics(t *testing.T, faults, attempts string) {
	t.Helper()
	kills, unknown := faults == "all", attempts == "1"
	db := pgtest.NewEmpty(t)
	o := execute(t.Context(), "--faults", faults, "--attempts", attempts, "--recording", smallDir, "--database-url", db.URL, "--seed", "7", "--metrics", "--json")
	require.Zero(t, o.code, o.stderr)
	var got result
	require.NoError(t, json.Unmarshal([]byte(o.out), &got))
	seen, exported := got.Metrics.Seen, got.Metrics.Exported

	require.Greater(t, got.FaultsTotal, 10)
	require.Greater(t, seen.Replayed, 50)
	require.Positive(t, seen.Waits)
	require.Equal(t, unknown, seen.Unknown > 0)
	require.Equal(t, !unknown, seen.Recovered > 0, "with one attempt there is none to find the record")
	require.Equal(t, got.Replayed, seen.Replayed+seen.Recovered)
	require.GreaterOrEqual(t, got.Deliveries, seen.Calls)
	if !kills {
		require.Equal(t, 8, got.Processes)
		require.Equal(t, got.Deliveries, seen.Calls, "every delivery is answered")
		require.Equal(t, seen, exported)
		require.Equal(t, seen.duplicateRate(), exported.duplicateRate())
		return
	}
	require.Greater(t, got.Processes, 8)
	require.Positive(t, exported.Replayed)
	require.Less(t, exported.Calls, seen.Calls, "a killed process takes its counts with it")
	require.Zero(t, got.Metrics.Disagree, "nothing is above what was seen")
}
