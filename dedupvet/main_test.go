package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/analysistest"
)

// Each analyzer finds the mistakes that its test data marks, and a comment with a reason hides
// them.
func TestAnalyzers(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("testdata")
	require.NoError(t, err)
	for _, analyzer := range analyzers {
		t.Run(analyzer.Name, func(t *testing.T) {
			t.Parallel()
			analysistest.Run(t, dir, analyzer, analyzer.Name, "ignored/"+analyzer.Name)
		})
	}
}

// A program with the real library and one mistake of each kind.
func TestProof(t *testing.T) {
	t.Parallel()
	tool, module := build(t), newModule(t)

	t.Run("GoVetFails", func(t *testing.T) {
		t.Parallel()
		got := run(t, module, nil, "go", "vet", "-vettool="+tool, "./...")
		require.Equal(t, 1, got.code, got.output)
		require.Contains(t, got.output, "Exec on a *pgxpool.Pool in an effect")
		require.NotContains(t, got.output, "good.go")
	})

	t.Run("GoVetNamesAnalyzers", func(t *testing.T) {
		t.Parallel()
		got := run(t, module, nil, "go", "vet", "-vettool="+tool, "-json", "./...")
		require.Zero(t, got.code, got.output)
		files := findings(t, got.output)
		for _, analyzer := range analyzers {
			require.Equal(t, []string{analyzer.Name + ".go"}, files[analyzer.Name], got.output)
		}
	})

	t.Run("GoVetPasses", func(t *testing.T) {
		t.Parallel()
		got := run(t, module, nil, "go", "vet", "-vettool="+tool, "./good")
		require.Zero(t, got.code, got.output)
		require.Empty(t, got.output)
	})

	t.Run("OnItsOwn", func(t *testing.T) {
		t.Parallel()
		got := run(t, module, nil, tool, "./...")
		require.Equal(t, 3, got.code, got.output)
		require.Equal(t, 5, strings.Count(got.output, ".go:"), got.output)
	})

	t.Run("OneAnalyzer", func(t *testing.T) {
		t.Parallel()
		got := run(t, module, nil, tool, "-keyloop", "./...")
		require.Equal(t, 3, got.code, got.output)
		require.Equal(t, 1, strings.Count(got.output, ".go:"), got.output)
		require.Contains(t, got.output, "keyloop.go")
	})
}

// The modules of this repository have no findings. Their tests are skipped: some make these
// mistakes on purpose.
func TestOwnTools(t *testing.T) {
	t.Parallel()
	tool, root := build(t), root(t)
	env := []string{"GOWORK=" + filepath.Join(root, "go.work")}
	listed := run(t, root, env, "go", "list", "-m", "-f", "{{.Dir}}")
	require.Zero(t, listed.code, listed.output)
	modules := strings.Fields(listed.output)
	require.Contains(t, modules, root)
	for _, module := range modules {
		got := run(t, module, env, tool, "-test=false", "./...")
		assert.Zero(t, got.code, "%s: %s", module, got.output)
		assert.Empty(t, got.output, module)
	}
}

func build(t *testing.T) string {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "dedupvet")
	got := run(t, ".", nil, "go", "build", "-o", tool, ".")
	require.Zero(t, got.code, got.output)
	return tool
}

// newModule makes a module of testdata/proof that requires this checkout's library and its
// dependencies.
func newModule(t *testing.T) string {
	t.Helper()
	dir, root := t.TempDir(), root(t)
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/proof")))

	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	const library = "github.com/tooldedup/dedup"
	text, isModule := strings.CutPrefix(string(mod), "module "+library+"\n")
	require.True(t, isModule, "go.mod begins with something else")
	text = "module example.com/tools\n" + text +
		"\nrequire " + library + " v0.0.0\nreplace " + library + " => " + root + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600))

	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600))

	// Download first, so that its messages are not among the findings.
	listed := run(t, dir, nil, "go", "list", "-deps", "./...")
	require.Zero(t, listed.code, listed.output)
	return dir
}

func root(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	return root
}

// findings returns the names of the files in which each analyzer found something.
func findings(t *testing.T, output string) map[string][]string {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "#") { // the package's name
			text.WriteString(line)
		}
	}
	files := make(map[string][]string)
	decoder := json.NewDecoder(strings.NewReader(text.String()))
	for decoder.More() {
		var packages map[string]map[string][]struct{ Posn string }
		require.NoError(t, decoder.Decode(&packages), output)
		for _, analyzers := range packages {
			for analyzer, found := range analyzers {
				for _, one := range found {
					file, _, _ := strings.Cut(filepath.Base(one.Posn), ":")
					files[analyzer] = append(files[analyzer], file)
				}
			}
		}
	}
	return files
}

type outcome struct {
	code   int
	output string
}

func run(t *testing.T, dir string, env []string, name string, args ...string) outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOFLAGS=", "GOWORK=off"), env...) // the last one counts
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return outcome{code: cmd.ProcessState.ExitCode(), output: output.String()}
}
