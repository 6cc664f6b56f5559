package figures

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// TestGoals holds the library to the goals that it has reached: its files stand in layers,
// but for a few that need each other.
func TestGoals(t *testing.T) {
	t.Parallel()
	lib, err := load(t.Context(), "../../../..")
	require.NoError(t, err)
	require.LessOrEqual(t, len(Knot(Uses(lib.fset, lib.packages[0]))), goalKnot)
	require.LessOrEqual(t, errorNames(lib.packages[0].Types), goalErrors)
}

// Three files need each other, by a function, a method and a field; one is only
// used, and one only uses.
func TestKnot(t *testing.T) {
	t.Parallel()

	fset := token.NewFileSet()
	var files []*ast.File
	for name, text := range map[string]string{
		"call.go":    `package toy; type call struct{ limit int }; func (c *call) run() { start(c) }`,
		"run.go":     `package toy; func start(c *call) { wait(c) }`,
		"wait.go":    `package toy; func wait(c *call) { for range c.limit { use() } }`,
		"used.go":    `package toy; func use() { local := 1; _ = local }`,
		"user.go":    `package toy; func all() { (&call{}).run() }`,
		"neither.go": `package toy; var n = 1`,
	} {
		file, err := parser.ParseFile(fset, name, text, 0)
		require.NoError(t, err)
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: importer.Default()}
	pkg, err := config.Check("toy", fset, files, info)
	require.NoError(t, err)

	uses := Uses(fset, &packages.Package{Types: pkg, TypesInfo: info})
	require.Equal(t, map[string]map[string]bool{
		"call.go": {"run.go": true},
		"run.go":  {"call.go": true, "wait.go": true},
		"wait.go": {"call.go": true, "used.go": true},
		"user.go": {"call.go": true},
	}, uses)
	require.Equal(t, []string{"call.go", "run.go", "wait.go"}, Knot(uses))
}

func TestExportedNames(t *testing.T) {
	t.Parallel()

	const text = `
type T[P any] struct{ Field int }; type u int
const A, B, c = 1, 2, 3
func (*T[P]) M(); func (T[P]) m(); func (u) M(); func F(); func f()`
	parse := func(name string) *ast.File {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package "+name+"\n"+text, 0)
		require.NoError(t, err)
		return file
	}
	for file, want := range map[string]int{
		"x.go": 5, "tool/x.go": 5, "internal/x.go": 0, "bench/internal/x.go": 0, "examples/x.go": 0, "dedupvet/x.go": 0,
	} {
		require.Equal(t, want, exportedNames(file, parse("x")), file)
	}
	require.Zero(t, exportedNames("x.go", parse("main")))
}
