// Package effects finds the code of a package that runs inside effects: the
// functions that are handed to dedup with a transaction to write through, and
// the functions of the package that these call.
package effects

import (
	"go/ast"
	"go/types"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"

	"github.com/tooldedup/dedup/dedupvet/internal/defs"
)

// Analyzer makes the []*Region of a package for other analyzers.
var Analyzer = &analysis.Analyzer{
	Name:       "dedupeffects",
	Doc:        "find the code that runs inside effects, for the analyzers of dedupvet",
	Requires:   []*analysis.Analyzer{inspect.Analyzer, defs.Analyzer},
	ResultType: reflect.TypeFor[[]*Region](),
	Run: func(pass *analysis.Pass) (any, error) {
		f := &finder{
			pass:    pass,
			info:    pass.TypesInfo,
			defs:    pass.ResultOf[defs.Analyzer].(*defs.Defs),
			regions: make(map[ast.Node]*Region),
			seen:    make(map[*types.Var]bool),
		}
		f.findEffects()
		f.findHelpers()
		return f.found, nil
	},
}

// Of returns the regions for an analyzer that requires Analyzer.
func Of(pass *analysis.Pass) []*Region { return pass.ResultOf[Analyzer].([]*Region) }

// Region is a function that runs inside an effect.
type Region struct {
	// Node is the *ast.FuncLit or *ast.FuncDecl.
	Node ast.Node
	Type *ast.FuncType
	Body *ast.BlockStmt
	// Name is the declared name, empty for a literal.
	Name string
	// Effect tells that it is handed to dedup itself. Else an effect calls it.
	Effect bool
	// ReadOnly tells that only tools of class tool.ReadOnly run it.
	ReadOnly bool

	recv    *types.Var
	params  []*types.Var
	results []*types.Var
	info    *types.Info
	defs    *defs.Defs
	effects map[ast.Node]*Region // of the package
}

// Where says in a message what code this is.
func (r *Region) Where() string {
	if r.Effect || r.Name == "" {
		return "in an effect"
	}
	return "in " + r.Name + ", which an effect calls"
}

// Results are the results that have names.
func (r *Region) Results() []*types.Var { return r.results }

// Walk calls visit for every node of the region with the nodes around it, the
// outermost first and itself last. A function literal that is an effect itself
// is a region of its own and left out.
func (r *Region) Walk(visit func(n ast.Node, stack []ast.Node)) {
	ast.PreorderStack(r.Body, []ast.Node{r.Node}, func(n ast.Node, stack []ast.Node) bool {
		if other := r.effects[n]; other != nil && other != r {
			return false
		}
		visit(n, append(stack, n))
		return true
	})
}

// Declares tells whether a variable belongs to the region: one of its
// parameters, or declared in it. The receiver of an effect does not: dedup does
// not hand it over.
func (r *Region) Declares(v *types.Var) bool {
	if r.Effect && v == r.recv {
		return false
	}
	return r.Node.Pos() <= v.Pos() && v.Pos() < r.Node.End()
}
