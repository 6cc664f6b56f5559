package mcpdedup_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/npm"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestLongConformance runs the protocol's own conformance suite against the everything server of
// the Go SDK, alone and with dedup in front of all its tools. The suite's results must be equal.
// With keys every call is also repeated before the suite gets its answer, the answers are compared,
// and each call has one effect.
func TestLongConformance(t *testing.T) {
	t.Parallel()
	suite := installSuite(t)
	for _, mode := range []struct {
		name, version string
		stateless     bool
		passed        int  // the minimum of checks, without dedup
		refused       bool // the SDK accepts no calls
	}{
		{"2025-06-18", "2025-06-18", false, 50, false},
		{"2025-11-25", "2025-11-25", false, 80, false},
		{"2026-07-28", "2026-07-28", true, 150, false},
		{"2025-11-25Stateless", "2025-11-25", true, 60, false},
		{"2026-07-28WithSession", "2026-07-28", false, 50, true},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			alone := suite.run(t, suite.serve(t, mode.stateless, ""), mode.version)
			passed := 0
			for _, checks := range alone {
				for _, check := range checks {
					passed += strings.Count(check, " SUCCESS")
				}
			}
			require.GreaterOrEqual(t, passed, mode.passed)

			t.Run("WithoutKeys", func(t *testing.T) {
				t.Parallel()
				d := newSuiteDB(t)
				url := suite.serve(t, mode.stateless, d.settings(t, false))
				require.Equal(t, alone, suite.run(t, url, mode.version))
				require.Equal(t, mode.refused, d.count(t, "effects") == 0, "the calls passed through the middleware")
				require.Zero(t, d.count(t, "tool_dedup"))
			})
			t.Run("Keyed", func(t *testing.T) {
				t.Parallel()
				d := newSuiteDB(t)
				url := suite.serve(t, mode.stateless, d.settings(t, true))
				require.Equal(t, alone, suite.run(t, url, mode.version))
				require.Equal(t, d.count(t, "tool_dedup"), d.count(t, "effects"))
				require.Equal(t, mode.refused, d.count(t, "effects") == 0)
			})
		})
	}
}

// suiteDB is the database of the everything server's effects.
type suiteDB struct{ *desk }

func newSuiteDB(t *testing.T) suiteDB {
	db := pgtest.New(t)
	d := &desk{db: db, pool: db.Pool(t)}
	_, err := d.pool.Exec(t.Context(), deskTables)
	require.NoError(t, err)
	return suiteDB{d}
}

func (d suiteDB) settings(t *testing.T, keyed bool) string {
	return asJSON(t, args{"url": d.db.URL, "keyed": keyed})
}

// conformance has the installed suite and the built everything server.
type conformance struct {
	node, script, server string
}

func installSuite(t *testing.T) conformance {
	t.Helper()
	folder := npm.Install(t, "mcp-conformance")
	c := conformance{
		node:   "node",
		script: filepath.Join(folder, "node_modules/@modelcontextprotocol/conformance/dist/index.js"),
		server: filepath.Join(t.TempDir(), "everything"),
	}
	if exec.Command("node", "-e", "process.exit(require('fs').globSync ? 0 : 1)").Run() != nil {
		// The suite needs Node.js 22, which npm has for Linux.
		arch := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
		c.node = filepath.Join(folder, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin/node")
		if _, err := os.Stat(c.node); err != nil {
			t.Skip("SKIPPED, NOTHING WAS TESTED: the conformance suite wants Node.js 22, which is not installed and which npm does not have for this system")
		}
	}
	c.build(t)
	return c
}

// build builds the everything server from the SDK's source with two lines changed. It is a main
// package, so it cannot be imported.
func (c conformance) build(t *testing.T) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/go-sdk").Output()
	require.NoError(t, err)
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "conformance/everything-server/main.go"))
	require.NoError(t, err)
	changed := string(source)
	for from, to := range map[string]string{
		"\tregisterPrompts(server)\n":             "\tregisterPrompts(server)\n\taddMiddleware(server)\n",
		"http.ListenAndServe(*httpAddr, handler)": "serve(handler)",
	} {
		require.Equal(t, 1, strings.Count(changed, from), "%q in the SDK's everything server", from)
		changed = strings.Replace(changed, from, to, 1)
	}
	patched, overlay := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(patched, []byte(changed), 0o600))
	here, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, []byte(asJSON(t, args{"Replace": args{
		filepath.Join(here, "everything/main.go"):       patched,
		filepath.Join(here, "everything/middleware.go"): filepath.Join(here, "testdata/conformance/middleware.go"),
	}})), 0o600))
	out, err := exec.Command("go", "build", "-overlay", overlay, "-o", c.server, "./everything").CombinedOutput()
	require.NoError(t, err, string(out))
}

// serve starts the everything server, with dedup in front if settings are given.
func (c conformance) serve(t *testing.T, stateless bool, settings string) (url string) {
	t.Helper()
	cmd := exec.Command(c.server, "-http=free", "-stateless="+map[bool]string{true: "true", false: "false"}[stateless])
	cmd.Env, cmd.Stderr = append(os.Environ(), "DEDUP_CONFORMANCE="+settings), os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { stdin.Close(); _ = cmd.Wait() })
	url, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(url)
}

var suiteTime = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\w-]+$`)

// run returns the suite's checks and their statuses for each scenario.
func (c conformance) run(t *testing.T, url, version string) map[string][]string {
	t.Helper()
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), c.node, c.script, "server", "--url", url, "--spec-version", version, "--suite", "all", "--output-dir", folder)
	out, err := cmd.CombinedOutput() // it fails if a check fails; the checks have the details
	files, globErr := filepath.Glob(filepath.Join(folder, "*", "checks.json"))
	require.NoError(t, globErr)
	require.NotEmpty(t, files, "%v: %s", err, out)
	found := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var checks []struct{ ID, Status string }
		require.NoError(t, json.Unmarshal(text, &checks))
		scenario := suiteTime.ReplaceAllString(filepath.Base(filepath.Dir(file)), "")
		require.NotContains(t, found, scenario)
		found[scenario] = []string{}
		for _, check := range checks {
			found[scenario] = append(found[scenario], check.ID+" "+check.Status)
		}
		slices.Sort(found[scenario])
	}
	return found
}
