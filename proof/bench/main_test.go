package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup/proof/bench/internal/delay"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/run"
)

// TestMain also runs the process of the delay proxy, which the program starts by running itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == delay.CommandName {
		main()
	}
	goleak.VerifyTestMain(m)
}

func runBench(ctx context.Context, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = execute(ctx, args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// A run from the command line to the report, over the loopback and over a delay.
func TestRun(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "report.json")
	code, out, errs := runBench(t.Context(), "run", "--ways", "textbook,do", "--rounds", "2", "--duration", "1ms",
		"--clients", "1,2", "--delays", "0,1ms", "--json", file)
	require.Zero(t, code, errs)

	r, err := measure.ReadJSON[run.Report](file)
	require.NoError(t, err)
	require.Len(t, r.Lines, 2)
	require.GreaterOrEqual(t, r.Lines[1].RoundTrip, 2*time.Millisecond, "measured over the delay")
	for _, by := range []time.Duration{0, time.Millisecond} {
		for _, clients := range []int{1, 2} {
			bare := r.Cell("bare", run.First, run.Load{Delay: by, Clients: clients})
			require.Equal(t, 1.0, bare.Ratio)
			require.GreaterOrEqual(t, bare.P50, 6*by, "three round trips")
			for _, kind := range []run.Kind{run.First, run.Replay} {
				c := r.Cell("do", kind, run.Load{Delay: by, Clients: clients})
				require.Positive(t, c.Ratio)
				require.LessOrEqual(t, c.P50, c.P99)
				require.GreaterOrEqual(t, c.Calls, 2*10, "in two rounds")
			}
		}
	}
	require.Zero(t, r.Cell("do", run.OneKey, run.Load{Clients: 1}), "one client cannot race itself")
	require.Positive(t, r.Cell("do", run.OneKey, run.Load{Clients: 2}).Calls)
	cost := r.Cost("do", run.First)
	require.Equal(t, 3.0, cost.RoundTrips)
	require.InDelta(t, 1, cost.Flushes, 0.5, "one commit")
	require.Positive(t, cost.StoredBytes)
	require.Contains(t, out, "First calls, 1 ms each way")
}

func TestUsage(t *testing.T) {
	t.Parallel()

	for says, args := range map[string][]string{
		"--rounds must be at least 1": {"run", "--rounds", "0"},
		`there is no way "luck"`:      {"run", "--ways", "luck"},
		"leave --rounds out":          {"run", "--check", "--rounds", "9"},
		"unknown command":             {"walk"},
		"usage: delay":                {"delay"},
		"required flag(s)":            {"chart", "--growth", "r.json"},
		"must be at least 1":          {"sweep", "--records", "0"},
	} {
		code, out, errs := runBench(t.Context(), args...)
		require.Equal(t, 1, code)
		require.Empty(t, out)
		require.Contains(t, errs, says)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, errs := runBench(ctx, "run")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "context canceled")
}
