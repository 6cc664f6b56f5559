package dedup_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImports holds every package that a user can import, and what it imports of
// this module, to the standard library and pgx: whoever gets the library gets
// nothing else to build.
func TestImports(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Standard", "-deps", "./...")
	out, err := cmd.Output()
	require.NoError(t, err)

	const module = "github.com/tooldedup/dedup"
	standard := map[string]bool{}
	public, internal := map[string][]string{}, map[string][]string{}
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
		own := pkg.ImportPath == module || strings.HasPrefix(pkg.ImportPath, module+"/")
		switch {
		case own && strings.Contains(pkg.ImportPath, "/internal/"):
			internal[pkg.ImportPath] = pkg.Imports
		case own:
			public[pkg.ImportPath] = pkg.Imports
		}
	}
	require.Contains(t, public, module)
	require.Contains(t, public, module+"/migrations")
	var hold func(name string, imports []string)
	hold = func(name string, imports []string) {
		for _, imported := range imports {
			own, ofUs := internal[imported]
			ok := standard[imported] || strings.HasPrefix(imported, "github.com/jackc/pgx/v5") ||
				name != module && (imported == module || ofUs) ||
				name == module+"/tool/runner" && imported == module+"/tool"
			require.Truef(t, ok, "%s imports %s", name, imported)
			hold(imported, own)
		}
	}
	for name, imports := range public {
		hold(name, imports)
	}
}
