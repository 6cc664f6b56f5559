package chaos_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/proof/internal/chaos"
	"github.com/tooldedup/dedup/proof/internal/cli"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// run runs `proof chaos` and returns its output.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), append([]string{"chaos"}, args...), &stdout, &stderr, chaos.Command())
	return code, stdout.String(), stderr.String()
}

// TestLongCampaigns runs the short form of every campaign, two at a time: each has dozens of
// clients.
func TestLongCampaigns(t *testing.T) {
	t.Parallel()
	slots := make(chan struct{}, 2)
	for _, name := range chaos.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "citus" && citusdb.Missing() != "" {
				t.Skip(citusdb.Missing())
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			code, out, errs := run(t, name, "--short")
			require.Zero(t, code, "%s\n%s", ending(out), ending(errs))
			var s lab.Score
			require.NoError(t, json.Unmarshal([]byte(out), &s), "one line of JSON")
			require.Equal(t, name, s.Campaign)
			require.Equal(t, "held", s.Verdict)
			require.NotZero(t, s.Seed)
			require.Positive(t, s.Calls)
			require.Positive(t, s.Faults)
			require.False(t, s.Wrong())
		})
	}
}

// ending returns the end of a text. testify displays no message with a line above 64 kB.
func ending(text string) string { return text[max(0, len(text)-8000):] }

// TestNames: a name is one campaign's. Otherwise `chaos all` would run a campaign twice.
func TestNames(t *testing.T) {
	t.Parallel()
	sorted := slices.Sorted(slices.Values(chaos.Names()))
	require.NotEmpty(t, sorted)
	require.Equal(t, slices.Compact(slices.Clone(sorted)), sorted)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"None":     nil,
		"Two":      {"orders", "mcp"},
		"Unknown":  {"boredom"},
		"Negative": {"orders", "--calls", "-1"},
		"NoArm":    {"external", "--arm", "boredom"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := run(t, args...)
			require.Equal(t, exit.Misused, code)
			require.Empty(t, out)
			require.NotEmpty(t, errs)
		})
	}
	_, _, errs := run(t, "boredom")
	for _, name := range chaos.Names() {
		require.Contains(t, errs, name)
	}
}
