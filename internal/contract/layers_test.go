package contract_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layers are the rooms of the library, and what each may use of this module.
var layers = map[string][]string{
	"internal/canon":    {},
	"internal/sqllex":   {},
	"internal/wire":     {},
	"internal/examiner": {},
	// The promise from outside, and a model of a protocol: tests, and no code.
	"internal/contract": {},
	"external/model":    {},
	"internal/guard":    {"internal/sqllex", "internal/wire"},
	"internal/table":    {"internal/examiner", "internal/wire"},
	".":                 {"internal/canon", "internal/examiner", "internal/guard", "internal/sqllex", "internal/table", "internal/wire"},
	"migrations":        {"internal/examiner"},

	// What acts outside the database. The engine imports none of it, but knows its table.
	"external":    {".", "internal/canon", "internal/examiner", "internal/guard", "internal/table", "internal/wire"},
	"tool":        {".", "external", "internal/canon", "internal/door", "internal/guard"},
	"tool/loop":   {".", "internal/door", "tool"},
	"tool/runner": {".", "external", "internal/door", "tool"},
	"httpdedup":   {".", "external", "internal/door", "internal/guard", "internal/table", "internal/wire", "tool"},
	"sqldedup":    {".", "internal/guard", "internal/wire"},
	"dedupweb":    {".", "external", "internal/door", "internal/inspect", "internal/table", "tool"},
	"deduptest":   {".", "external", "internal/faultproxy", "internal/guard", "internal/process"},

	// What the doors say alike.
	"internal/door": {".", "external", "internal/guard", "internal/wire"},

	"internal/faultproxy":          {"internal/sqllex"},
	"internal/faultproxy/schedule": {"internal/faultproxy"},
	"internal/orders":              {".", "internal/faultproxy", "internal/faultproxy/schedule"},
	"internal/inspect":             {".", "external", "internal/examiner", "internal/table", "internal/wire"},
}

// TestRootDoesNotNameExternal: no file of the engine names package external. The engine knows the
// table tool_effect through internal/table: Reset and Resolve refuse what it holds, and Erase
// erases it. Only the package's documentation leads users to the package.
func TestRootDoesNotNameExternal(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "doc.go" {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, strings.ToLower(string(text)), "external", file)
	}
}

// TestLayers checks the imports of every package against the table. Packages that users import need
// only the standard library and pgx.
func TestLayers(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Standard", "-deps", "./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	require.NoError(t, err)

	const module = "github.com/tooldedup/dedup"
	own := func(path string) (room string, ok bool) {
		if path == module {
			return ".", true
		}
		return strings.CutPrefix(path, module+"/")
	}
	standard := map[string]bool{}
	imports := map[string][]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			ImportPath string
			Imports    []string
			Standard   bool
		}
		err := dec.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		standard[pkg.ImportPath] = pkg.Standard
		if room, ok := own(pkg.ImportPath); ok {
			imports[room] = pkg.Imports
		}
	}
	for room, list := range imports {
		used, held := layers[room]
		if !held {
			// A package may be missing from the table only if users cannot import it.
			require.Truef(t, strings.Contains(room, "internal/") || room == "docs" || room == "docs/upstream", "%s has no place among the layers", room)
			continue
		}
		for _, path := range list {
			if of, ok := own(path); ok {
				require.Truef(t, slices.Contains(used, of), "%s uses %s, which does not lie below it", room, of)
				continue
			}
			require.Truef(t, standard[path] || strings.HasPrefix(path, "github.com/jackc/pgx/v5"), "%s imports %s", room, path)
		}
	}
	for room := range layers {
		require.Containsf(t, imports, room, "%s is gone", room)
	}
}
