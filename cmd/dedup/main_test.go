package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// asProgram makes the test binary be the program dedup: exit codes and signals
// can only be seen from outside.
const asProgram = "DEDUP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	pgtest.Main(m)
}

// program is dedup with the arguments, not started yet.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, out, errOut *bytes.Buffer) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	out, errOut = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = out, errOut
	return cmd, out, errOut
}

func TestExitCodes(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	empty := pgtest.NewEmpty(t)
	tests := []struct {
		name string
		args []string
		code int
	}{
		{"Help", []string{"--help"}, 0},
		{"Sound", []string{"migrate", "check", "--database-url", db.URL}, 0},
		{"Missing", []string{"migrate", "check", "--database-url", empty.URL}, 1},
		{"NotSound", []string{"doctor", "--database-url", empty.URL}, 1},
		{"Unreachable", []string{"doctor", "--database-url", "postgres://127.0.0.1:1/db"}, 1},
		{"UnreachableCheck", []string{"migrate", "check", "--database-url", "postgres://127.0.0.1:1/db"}, 1},
		{"NothingParked", []string{"parked", "--database-url", db.URL}, 0},
		{"ParkedWithoutTable", []string{"parked", "--database-url", empty.URL}, 1},
		{"ResolveUnknown", []string{"resolve", "acme", "pay", "k", "--never", "--reason", "r", "--database-url", db.URL}, 1},
		{"ResolveWithoutVerdict", []string{"resolve", "acme", "pay", "k", "--reason", "r", "--database-url", db.URL}, 2},
		{"NothingNeedsAttention", []string{"attention", "--database-url", db.URL}, 0},
		{"AttentionWithoutTable", []string{"attention", "--database-url", empty.URL}, 1},
		{"NothingListed", []string{"list", "--scope", "acme", "--tool", "pay", "--database-url", db.URL}, 0},
		{"ListOfWhat", []string{"list", "--since", "1h", "--database-url", db.URL}, 2},
		{"ShowUnknown", []string{"show", "acme", "pay", "k", "--database-url", db.URL}, 0},
		{"ResetUnknown", []string{"reset", "acme", "pay", "k", "--reason", "r", "--database-url", db.URL}, 1},
		{"ResetWithoutReason", []string{"reset", "acme", "pay", "k", "--database-url", db.URL}, 2},
		{"EraseWithoutYes", []string{"erase", "--scope", "acme", "--database-url", db.URL}, 1},
		{"EraseWithoutReason", []string{"erase", "--scope", "acme", "--yes", "--database-url", db.URL}, 2},
		{"EraseNothing", []string{"erase", "--scope", "acme", "--reason", "r", "--yes", "--database-url", db.URL}, 0},
		{"ExportNothing", []string{"export", "--scope", "acme", "--database-url", db.URL}, 0},
		{"Audit", []string{"audit", "--database-url", db.URL}, 0},
		{"Stats", []string{"stats", "--database-url", db.URL}, 0},
		{"StatsWithoutTable", []string{"stats", "--database-url", empty.URL}, 1},
		{"Completion", []string{"completion", "bash"}, 0},
		{"Version", []string{"version"}, 0},
		{"Usage", []string{"migrate", "chekc"}, 2},
		{"Nothing", nil, 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cmd, out, errOut := program(t, tc.args...)
			if err := cmd.Run(); err != nil {
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit)
			}
			require.Equal(t, tc.code, cmd.ProcessState.ExitCode(), "%s%s", out, errOut)
		})
	}
}

func TestCtrlC(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	pool := db.Pool(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE tool_dedup_version`)
	require.NoError(t, err)

	cmd, out, errOut := program(t, "migrate", "up", "--database-url", db.URL)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		var waiting bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'tool_dedup_version'::regclass)`).Scan(&waiting)
		return err == nil && waiting
	}, 10*time.Minute, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode(), "%s%s", out, errOut)
	require.Equal(t, "dedup: interrupted\n", errOut.String())
}

// The programs that `go build` writes to the root and to this folder are ignored by git.
func TestBuiltProgramIsIgnored(t *testing.T) {
	t.Parallel()

	ignored, err := os.ReadFile("../../.gitignore")
	require.NoError(t, err)
	require.Subset(t, strings.Split(string(ignored), "\n"), []string{"/dedup", "/cmd/dedup/dedup"})
}
