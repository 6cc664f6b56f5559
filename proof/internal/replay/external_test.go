package replay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/proof/internal/replay/payment"
)

// TestReplayExternal runs the writes as effects outside the database. The kind of provider
// decides which calls may be parked.
func TestReplayExternal(t *testing.T) {
	t.Parallel()
	testReplayExternal(t, payment.LookUp)
}

func TestLongReplayExternal(t *testing.T) {
	t.Parallel()
	testReplayExternal(t, payment.Keys, payment.LookUpSettles, payment.Neither)
}

func testReplayExternal(t *testing.T, kinds ...payment.Kind) {
	t.Helper()
	dir := sessionsOf(t, "airline/small/change", "retail/small/modify")
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmpty(t)
			o := execute(t.Context(), "--recording", dir, "--database-url", db.URL, "--seed", "7", "--json", "--verbose",
				"--faults", "kill,lost-answer,cut-before-commit,delayed-commit,twins2", "--external", string(kind))
			require.Zero(t, o.code, o.stderr)
			var got result
			require.NoError(t, json.Unmarshal([]byte(o.out), &got))
			require.Equal(t, []int{0, 0, 0}, []int{got.Doubled, got.Wrong, got.Lost}, o.stderr)
			require.Equal(t, got.Writes, got.Checked.Records)
			e := got.External
			require.Equal(t, []int{8, 2}, []int{e.Calls, e.Refused})
			require.Equal(t, []int{0, 0, 0, 0, 0}, []int{e.Doubled, e.Lost, e.Wrong, e.Local, e.Known}, o.stderr)
			require.Greater(t, e.Requests, e.Calls-e.Refused)
			require.NotEmpty(t, e.Mishaps)
			require.Equal(t, kind.AlwaysKnows(), e.Parked == 0)
			if kind != payment.Neither {
				require.Zero(t, e.Happened, "a look or the key finds what has happened")
			}
			requireDropped(t, db, o.stderr)
		})
	}
}

// sessionsOf is a folder with some sessions of the small recording.
func sessionsOf(t *testing.T, ids ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(smallDir)))
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var kept strings.Builder
		for line := range strings.Lines(string(text)) {
			if slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(line, `"`+id+`"`) }) {
				kept.WriteString(line)
			}
		}
		require.NoError(t, os.WriteFile(file, []byte(kept.String()), 0o600))
	}
	return dir
}
