package replay

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"UnknownFlag":     {[]string{"--nothing"}, "unknown flag"},
		"Argument":        {[]string{"now"}, `unknown command "now"`},
		"UnknownFault":    {[]string{"--faults", "kill,fire"}, `unknown fault "fire"`},
		"NoFault":         {[]string{"--faults", ""}, "unknown fault"},
		"UnknownWay":      {[]string{"--through", "pigeon"}, `unknown way "pigeon"; known are registry`},
		"NothingToCut":    {[]string{"--faults", "kill,cut-connection"}, "no connection to cut"},
		"NegativeSeed":    {[]string{"--seed", "-1"}, "invalid argument"},
		"NaiveAndCompare": {[]string{"--naive", "--compare"}, "choose one"},
		"NaiveAndHTML":    {[]string{"--naive", "--html", "page.html"}, "choose one"},
		"NoFolder":        {[]string{"--html", "/no/such/folder/page.html"}, "no folder"},
		"FolderForPage":   {[]string{"--html", "."}, "is a folder"},
		"NoRecording":     {[]string{"--recording", "/no/such/folder"}, "no such file"},
		"NoPostgresURL":   {[]string{"--recording", smallDir, "--database-url", "mysql://u:secret@h/d"}, "postgres://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := execute(t.Context(), tt.args...)
			require.Equal(t, 2, o.code)
			require.Contains(t, o.stderr, tt.says)
			require.NotContains(t, o.stderr, "secret")
			require.Empty(t, o.out)
		})
	}
}

func TestRunFails(t *testing.T) {
	t.Parallel()

	t.Run("NothingListens", func(t *testing.T) {
		t.Parallel()
		o := execute(t.Context(), "--recording", smallDir, "--database-url", "postgres://u:secret@127.0.0.1:1/d")
		require.Equal(t, 1, o.code)
		require.NotContains(t, o.stderr, "secret")
	})

	t.Run("DamagedRecording", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "trajectories.jsonl"), []byte("{"), 0o600))
		o := execute(t.Context(), "--recording", dir)
		require.Equal(t, 2, o.code)
		require.Contains(t, o.stderr, "trajectories.jsonl, line 1")
	})
}
