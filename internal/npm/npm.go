// Package npm installs packages of npm for tests.
package npm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/process"
)

// ErrMissing is returned without Node.js or without access to npm's packages.
var ErrMissing = errors.New("npm: missing")

// Install installs the packages of scripts/NAME into .cache/NAME and returns that folder. If [Find]
// returns [ErrMissing], it skips the test with the reason.
func Install(t *testing.T, name string) (folder string) {
	t.Helper()
	folder, err := Find(name)
	if errors.Is(err, ErrMissing) {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %s", err)
	}
	require.NoError(t, err)
	return folder
}

// Find is [Install] for a test that can run partly without the packages. The error wraps
// [ErrMissing] if they are not available.
func Find(name string) (folder string, err error) {
	installing.Lock() // two at the same time would break each other
	defer installing.Unlock()
	root := process.Checkout()
	if root == "" {
		return "", errors.New("npm: the test does not run in a checkout")
	}
	folder = filepath.Join(root, ".cache", name)
	install := exec.Command(filepath.Join(root, "scripts", "npm-install"), name, folder)
	install.Stderr = os.Stderr
	why, err := install.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == missing:
		return "", fmt.Errorf("%w: %s", ErrMissing, why)
	case err != nil:
		return "", fmt.Errorf("npm: installing %s: %w: %s", name, err, why)
	}
	return folder, nil
}

// missing is the exit code of scripts/npm-install if the packages are not available.
const missing = 3

var installing sync.Mutex
