package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// asProgram runs the test binary as the program proof: an exit code is only visible from outside.
const asProgram = "PROOF_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestProgram(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		args        []string
		code        int
		out, errOut string
	}{
		"Help":          {[]string{"--help"}, 0, "Available Commands", ""},
		"Replay":        {[]string{"replay", "--help"}, 0, "Replay recorded agent sessions", ""},
		"Chaos":         {[]string{"chaos", "--help"}, 0, "lost-commit", ""},
		"KillWorker":    {[]string{"chaos-worker", "--help"}, 0, "", ""},
		"ReplayWorker":  {[]string{"replay-worker", "--help"}, 0, "", ""},
		"Unknown":       {[]string{"reply"}, 2, "", "proof: unknown command \"reply\" for \"proof\"\n\nDid you mean this?\n\treplay\n\nRun `proof --help` for help.\n"},
		"Flag":          {[]string{"replay", "--x"}, 2, "", "proof: unknown flag: --x\nRun `proof replay --help` for help.\n"},
		"RunEndsBadly":  {[]string{"replay", "--database-url", "postgres://127.0.0.1:1/d"}, 1, "", ""},
		"UsageInside":   {[]string{"chaos", "boredom"}, 2, "", ""},
		"NothingIsHelp": {nil, 0, "Available Commands", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errOut bytes.Buffer
			cmd := exec.CommandContext(t.Context(), binary, tt.args...)
			cmd.Env = append(os.Environ(), asProgram+"=1")
			cmd.Stdout, cmd.Stderr = &out, &errOut
			if err := cmd.Run(); err != nil {
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit)
			}
			require.Equal(t, tt.code, cmd.ProcessState.ExitCode(), "%s%s", &out, &errOut)
			require.Contains(t, out.String(), tt.out)
			if tt.errOut != "" {
				require.Equal(t, tt.errOut, errOut.String())
			}
		})
	}
}
