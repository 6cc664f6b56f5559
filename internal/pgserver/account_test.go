package pgserver

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// An ordinary user runs the server as himself. Root can try that out; anyone else
// is such a user, and every other test tries it.
func TestServerOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		server := startServer(t, nil)
		require.Nil(t, server.account)
		return
	}
	nobody, err := user.Lookup("nobody")
	require.NoError(t, err)
	uid, err := strconv.Atoi(nobody.Uid)
	require.NoError(t, err)
	gid, err := strconv.Atoi(nobody.Gid)
	require.NoError(t, err)

	// The test binary lies in a folder that only we may enter.
	binary := filepath.Join(publicDir(t), "pgserver.test")
	self, err := os.Executable()
	require.NoError(t, err)
	content, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(binary, content, 0o755))

	h := startHelper(t, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Dir = binary, filepath.Dir(binary)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	})
	require.Equal(t, uid, h.UID)
	require.Equal(t, uid, owner(t, h.DataDir))
	require.NoError(t, connectTo(t, h.URL).Ping(t.Context()))
	h.finish(t)
	require.NoDirExists(t, h.DataDir)
}

func TestServerOfRootIsUnprivileged(t *testing.T) {
	t.Parallel()

	server := startServer(t, nil)
	require.NotZero(t, owner(t, server.DataDir()), "the data's owner")
	if os.Geteuid() == 0 {
		require.NotNil(t, server.account)
		require.Contains(t, []string{"postgres", "nobody"}, server.account.Name)
	}
}

// owner returns the user id of a file's owner.
func owner(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return int(info.Sys().(*syscall.Stat_t).Uid)
}
