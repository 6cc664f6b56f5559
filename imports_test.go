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

// TestImports holds every package that a user can import to the standard
// library and pgx: whoever gets the library gets nothing else to build.
func TestImports(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Standard", "-deps", "./...")
	out, err := cmd.Output()
	require.NoError(t, err)

	const module = "github.com/tooldedup/dedup"
	standard := map[string]bool{}
	public := map[string][]string{}
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
		if own && !strings.Contains(pkg.ImportPath, "/internal/") {
			public[pkg.ImportPath] = pkg.Imports
		}
	}
	require.Contains(t, public, module)
	require.Contains(t, public, module+"/migrations")
	for name, imports := range public {
		for _, imported := range imports {
			ok := standard[imported] || strings.HasPrefix(imported, "github.com/jackc/pgx/v5") ||
				name != module && imported == module ||
				name == module+"/tool/runner" && imported == module+"/tool"
			require.Truef(t, ok, "%s imports %s", name, imported)
		}
	}
}
