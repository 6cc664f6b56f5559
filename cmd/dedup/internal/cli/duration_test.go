package cli_test

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
)

func TestDurations(t *testing.T) {
	t.Parallel()

	var d time.Duration
	cmd := &cobra.Command{Use: "since"}
	cli.AddDuration(cmd, &d, "since", 36*time.Hour, "how far back")
	require.Equal(t, 36*time.Hour, d)
	require.Equal(t, "36h", cmd.Flag("since").DefValue)
	for text, want := range map[string]time.Duration{
		"7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "0d30s": 30 * time.Second, "0": 0,
	} {
		require.NoError(t, cmd.Flags().Set("since", text), text)
		require.Equal(t, want, d, text)
		require.NoError(t, cmd.Flags().Set("since", cmd.Flag("since").Value.String()), "it reads what it writes")
		require.Equal(t, want, d, text)
	}
	for _, text := range []string{"", "d", "7", "-5s", "7days", "d7", "1d-1h", "-1d", "1.5d", "106752d", "106751d24h", "x"} {
		require.ErrorContains(t, cmd.Flags().Set("since", text), "7d", text)
	}
}
