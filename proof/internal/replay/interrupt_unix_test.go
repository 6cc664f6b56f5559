//go:build unix

package replay

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestInterrupt sends SIGINT to the whole process group, as a terminal does, and
// requires that the driver ends its workers and drops its database.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, sign := range map[string]string{"AtTheStart": "dedup: ", "BetweenTwoFaults": "delivered again"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmpty(t)
			self, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.Command(self, "replay", "--recording", smallDir, "--database-url", db.URL,
				"--seed", "1", "--faults", "kill,terminate", "--verbose")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			var out bytes.Buffer
			cmd.Stdout = &out
			pipe, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())

			var stderr strings.Builder
			interrupted := false
			for lines := bufio.NewScanner(pipe); lines.Scan(); {
				stderr.WriteString(lines.Text() + "\n")
				if !interrupted && strings.Contains(lines.Text(), sign) {
					interrupted = true
					require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
				}
			}
			var exit *exec.ExitError
			require.ErrorAs(t, cmd.Wait(), &exit)
			require.Equal(t, 130, exit.ExitCode(), stderr.String())
			require.Empty(t, out.String())
			gone := syscall.Kill(-cmd.Process.Pid, 0)
			all, _ := exec.Command("ps", "-eo", "pgid,pid,ppid,stat,args").CombinedOutput()
			require.ErrorIs(t, gone, syscall.ESRCH, "processes of the group %d are left:\n%s", cmd.Process.Pid, all)
			requireDropped(t, db, stderr.String())
		})
	}
}
