package scale

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/report"
)

// refused checks that a command line is answered before a server is started.
func refused(t *testing.T, cmd *cobra.Command, args []string) {
	t.Helper()
	var errs bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	cmd.SetErr(&errs)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	require.Error(t, cmd.ExecuteContext(t.Context()), "%v", args)
	require.Empty(t, errs.String())
}

// A whole command: on a private server with the settings of production.
func TestCommandWritesItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "growth.json")
	var out bytes.Buffer
	cmd := growthCommand(GrowthOptions{Clients: []int{1}, Kinds: []KeyKind{OrderedKeys}, Rounds: 1, Calls: 5, Real: 5})
	cmd.SetArgs([]string{"--sizes", "100", "--json", file})
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	require.NoError(t, cmd.ExecuteContext(t.Context()))

	g, err := report.ReadJSON[Growth](file)
	require.NoError(t, err)
	require.Len(t, g.Rows, 1)
	require.NotEmpty(t, g.Machine.Source)
	require.Equal(t, "on", g.Machine.Settings["fsync"])
	require.Equal(t, "on", g.Machine.Settings["full_page_writes"])
	require.Equal(t, "on", g.Machine.Settings["synchronous_commit"])
	require.Contains(t, out.String(), "checkpoint_timeout 1h")
}

func TestRatio(t *testing.T) {
	t.Parallel()

	require.Equal(t, 1.5, ratio(int64(3), int64(2)))
	require.Zero(t, ratio(3.0, 0.0))
}
