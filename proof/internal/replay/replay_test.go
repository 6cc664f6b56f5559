package replay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

func TestReplayThrough(t *testing.T) {
	t.Parallel()
	for _, way := range []worker.Way{worker.Registry, worker.MCP} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			replayThrough(t, way)
		})
	}
}

func TestLongReplayThroughHTTP(t *testing.T) {
	t.Parallel()
	replayThrough(t, worker.HTTP)
}

// replayThrough replays by one way and requires that nothing goes wrong. Only the first way runs
// the naive arm, which must go wrong.
func replayThrough(t *testing.T, way worker.Way) {
	t.Helper()
	db := pgtest.NewEmpty(t)
	page := filepath.Join(t.TempDir(), "page.html")
	args := []string{"--recording", smallDir, "--database-url", db.URL, "--through", string(way), "--seed", "7", "--json"}
	if way == worker.Registry {
		args = append(args, "--html", page)
	}

	o := execute(t.Context(), args...)
	require.Zero(t, o.code, o.stderr)
	require.Equal(t, 1, strings.Count(o.out, "\n"), "one JSON object")
	var got result
	require.NoError(t, json.Unmarshal([]byte(o.out), &got))

	require.Equal(t, "dedup", got.Mode)
	require.Equal(t, string(way), got.Through)
	require.Equal(t, smallDir, got.Recording)
	require.EqualValues(t, 7, got.Seed)
	require.Equal(t, []int{6, 30, 20}, []int{got.Sessions, got.Calls, got.Writes})
	require.Equal(t, []int{0, 0, 0}, []int{got.Doubled, got.Wrong, got.Lost}, o.stderr)
	require.Equal(t, checked{Answers: got.Checked.Answers, Effects: 16, Records: 20}, got.Checked)
	require.Equal(t, []int{1, 1}, []int{got.RepeatedWrites, got.RepeatedWritesRan})
	require.Greater(t, got.Deliveries, 100)
	require.Greater(t, got.FaultsTotal, 20)
	require.Len(t, got.Faults, len(faultKinds))
	require.Positive(t, got.Faults[lostAnswer])
	require.Equal(t, way.Networked(), got.Faults[cutConnection] > 0)
	require.Equal(t, 8+got.Faults[kill], got.Processes, "a killed process is replaced, and no other ends")

	requireDropped(t, db, o.stderr)
	if way != worker.Registry {
		return
	}
	naive := got.Naive
	require.Equal(t, "naive", naive.Mode)
	require.Positive(t, naive.Doubled)
	require.Positive(t, naive.Wrong)
	require.Zero(t, naive.Replayed)
	require.Zero(t, naive.Lost)

	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "</html>")
}

func TestReplayNaiveFails(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	o := execute(t.Context(), "--recording", smallDir, "--database-url", db.URL, "--seed", "7", "--naive", "--faults", "twins2")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "doubled effects")
	require.Contains(t, o.out, "naive")
	requireDropped(t, db, o.stderr)
}

// TestReplayWithoutFaults shows that the checks agree with the recording if deliveries are only
// repeated.
func TestReplayWithoutFaults(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	o := execute(t.Context(), "--recording", smallDir, "--database-url", db.URL, "--faults", "none", "--json")
	require.Zero(t, o.code, o.stderr)
	var got result
	require.NoError(t, json.Unmarshal([]byte(o.out), &got))
	require.Zero(t, got.FaultsTotal)
	require.Equal(t, got.Deliveries, got.Rounds.Single+got.Rounds.Last)
	require.Equal(t, got.Deliveries-got.Writes, got.Replayed)
	require.Equal(t, 8, got.Processes)
	requireDropped(t, db, o.stderr)
}

// requireDropped requires that a replay dropped its databases.
func requireDropped(t *testing.T, db *pgtest.DB, stderr string) {
	t.Helper()
	names := regexp.MustCompile(`dedup_replay_\w+`).FindAllString(stderr, -1)
	require.NotEmpty(t, names, stderr)
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var left int
	err = conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_database WHERE datname = ANY ($1)`, names).Scan(&left)
	require.NoError(t, err)
	require.Zero(t, left, names)
}
