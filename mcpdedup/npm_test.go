package mcpdedup_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// npmInstall installs what scripts/NAME names, and returns the folder. It skips the
// test, and says why, where there is no node or no way to npm's packages.
func npmInstall(t *testing.T, name string) (folder string) {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("../.cache", name))
	require.NoError(t, err)
	npm.Lock() // two at the same time would break each other
	defer npm.Unlock()
	cmd := exec.Command("../scripts/npm-install", name, folder)
	cmd.Stderr = os.Stderr
	why, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.Skipf("not run: %s", why)
	}
	require.NoError(t, err, string(why))
	return folder
}

var npm sync.Mutex
