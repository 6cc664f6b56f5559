package dedup_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedFile = regexp.MustCompile(`[a-z_]+(?:/[a-z_]+)*\.go\b`)
	namedCode = regexp.MustCompile("`(?:([a-z]+)\\.)?([A-Za-z]+)`")
)

// TestWayOfACall: what the tables of the way of a call name is there, the files and what is
// declared in the engine and its rooms.
func TestWayOfACall(t *testing.T) {
	t.Parallel()
	declared, files := map[string]bool{}, map[string]bool{}
	for _, dir := range []string{".", "internal/canon", "internal/flight", "internal/guard", "internal/sqllex", "internal/table", "internal/wire"} {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, paths, dir)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			files[filepath.ToSlash(path)], files[filepath.Base(path)] = true, true
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, decl := range parsed.Decls {
				switch decl := decl.(type) {
				case *ast.FuncDecl:
					declared[decl.Name.Name] = true
				case *ast.GenDecl:
					for _, spec := range decl.Specs {
						if of, ok := spec.(*ast.TypeSpec); ok {
							declared[of.Name.Name] = true
						}
					}
				}
			}
		}
	}
	for document, title := range map[string]string{
		"docs/design.md":  "\n## The way of a call\n",
		"CONTRIBUTING.md": "\n### The way of a call: where is … ?\n",
	} {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		_, section, ok := strings.Cut(string(text), title)
		require.True(t, ok, "%s has no section of this title", document)
		section, _, _ = strings.Cut(section, "\n## ")
		var rows int
		for row := range strings.Lines(section) {
			if !strings.HasPrefix(row, "| ") {
				continue
			}
			rows++
			for _, file := range namedFile.FindAllString(row, -1) {
				require.Truef(t, files[file], "%s: there is no %s: %s", document, file, row)
			}
			for _, name := range namedCode.FindAllStringSubmatch(row, -1) {
				require.Truef(t, name[1] == "pgx" || declared[name[2]], "%s: %s is not declared: %s", document, name[0], row)
			}
		}
		require.Greater(t, rows, 10, document)
	}
}

// TestNotFoundIsSaidInOneWay: the README and the runbook say in the words of Lookup when
// "not found" is certain.
func TestNotFoundIsSaidInOneWay(t *testing.T) {
	t.Parallel()

	plainText := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		paragraphs := strings.Split(strings.NewReplacer("\n//", "\n", "`", "").Replace(string(text)), "\n\n")
		for i, p := range paragraphs {
			paragraphs[i] = strings.Join(strings.Fields(p), " ")
		}
		return strings.Join(paragraphs, "\n")
	}
	_, rule, found := strings.Cut(plainText("lookup.go"), "\nStateNotFound is certain")
	require.True(t, found)
	rule, _, _ = strings.Cut(rule, "\n")
	require.Contains(t, rule, "Until")
	for _, file := range []string{"README.md", "docs/operations.md"} {
		require.Contains(t, plainText(file), "\nStateNotFound is certain"+rule+"\n", file)
	}
}
