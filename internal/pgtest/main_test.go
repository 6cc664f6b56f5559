package pgtest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgserver"
)

func TestMain(m *testing.M) { Main(m) }

// helperMode makes TestHelper run as a separate process: what Main writes after the tests can only
// be seen from outside.
const helperMode = "PGTEST_TEST_HELPER"

//nolint:paralleltest // it is all that its process does
func TestHelper(t *testing.T) {
	switch os.Getenv(helperMode) {
	case "pass":
		require.NoError(t, New(t).Pool(t).Ping(t.Context()))
	case "fail":
		New(t)
		t.Fail()
	case "leak":
		go func() { select {} }()
	}
}

// runHelper runs TestHelper, with DEDUP_DATABASE_URL set to url, and returns its
// output and whether it passed.
func runHelper(t *testing.T, mode, url string) (output string, passed bool) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestHelper$", "-test.v")
	cmd.Env = append(os.Environ(), helperMode+"="+mode, "DEDUP_DATABASE_URL="+url, sharedServer+"=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode())
	}
	return string(out), err == nil
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("Passes", func(t *testing.T) {
		t.Parallel()
		output, passed := runHelper(t, "pass", "")
		require.True(t, passed, output)
		require.Equal(t, 1, strings.Count(output, "pgtest: PostgreSQL "), "one line says which server: %s", output)
	})

	t.Run("StartsNoServerThatIsNotUsed", func(t *testing.T) {
		t.Parallel()
		output, passed := runHelper(t, "", "")
		require.True(t, passed, output)
		require.NotContains(t, output, "pgtest:")
	})

	t.Run("FindsLeaks", func(t *testing.T) {
		t.Parallel()
		output, passed := runHelper(t, "leak", "")
		require.False(t, passed)
		require.Contains(t, output, "--- PASS: TestHelper")
		require.Contains(t, output, "pgtest: after the tests: found unexpected goroutines")
	})

	t.Run("SaysHowToKeepTheDatabaseOfAFailedTest", func(t *testing.T) {
		t.Parallel()
		output, passed := runHelper(t, "fail", "")
		require.False(t, passed)
		require.Regexp(t, `the test's database dedup_test_\w+_testhelper is gone with its server; to keep it, set DEDUP_DATABASE_URL`, output)
	})

	t.Run("KeepsTheDatabaseOfAFailedTest", func(t *testing.T) {
		t.Parallel()
		_, err := process.connect()
		require.NoError(t, err)
		output, passed := runHelper(t, "fail", process.url)
		require.False(t, passed)
		kept := regexp.MustCompile(`the test's database is kept: psql '(.+/(\w+)\?.+)'`).FindStringSubmatch(output)
		require.NotNil(t, kept, output)

		db := &DB{Name: kept[2], URL: kept[1], cluster: process}
		require.True(t, migrated(t, db))
		require.NoError(t, db.Drop(t.Context()))
	})
}

func TestNoMain(t *testing.T) {
	t.Parallel()

	c := newCluster(&pgserver.Options{})
	_, err := c.create(t.Context(), t.Name(), true)
	require.ErrorIs(t, err, ErrNoMain)

	c.open()
	require.NoError(t, c.close(t.Context()), "of a server that was never needed")
	_, err = c.connect()
	require.ErrorIs(t, err, ErrNoMain)
}

// A server that cannot be had is looked for once, and every test is told.
func TestNoServer(t *testing.T) {
	t.Parallel()

	c := newCluster(&pgserver.Options{BinDir: t.TempDir()})
	c.open()
	_, err := c.create(t.Context(), t.Name(), true)
	require.ErrorContains(t, err, "no PostgreSQL server found")
	_, again := c.create(t.Context(), t.Name(), false)
	require.Same(t, err, again)
	require.NoError(t, c.close(t.Context()))
}
