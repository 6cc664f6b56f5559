// Package lossy finds arguments and results that encoding/json leaves a part of out.
package lossy

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/ignore"
)

// Analyzer reports them.
var Analyzer = &analysis.Analyzer{
	Name: "lossy",
	Doc: `report arguments and results of which JSON keeps only a part

Calls are compared by the JSON text of their arguments, and answered with that of
the first result. encoding/json leaves out without an error what it cannot reach:
structs with unexported fields only (errors, atomics), a MarshalJSON with a pointer
receiver in a map or an interface, fields beside an embedded type that marshals
itself. A call with such a value is refused when it is made. In arguments an
unexported field beside exported ones counts too; tag it json:"-" if it does not
count.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      ignore.Run(run),
}

func run(pass *analysis.Pass) (any, error) {
	f := finder{pass}
	nodes := []ast.Node{(*ast.CompositeLit)(nil), (*ast.AssignStmt)(nil), (*ast.CallExpr)(nil)}
	pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Preorder(nodes, f.find)
	return nil, nil
}

// finder finds where arguments and results have a type.
type finder struct{ pass *analysis.Pass }

func (f finder) find(n ast.Node) {
	info := f.pass.TypesInfo
	switch n := n.(type) {
	case *ast.CompositeLit:
		t := info.TypeOf(n)
		if in, out := toolTypes(t); out != nil {
			f.result(n, "Out", out)
			if api.IsNamed(t, api.External, "Tool") { // whose In is compared, and stored
				f.input(n, in)
			}
		}
		if !api.IsNamed(t, api.Dedup, "Call") {
			return
		}
		for i, elt := range n.Elts {
			if kv, ok := elt.(*ast.KeyValueExpr); ok {
				if name, ok := kv.Key.(*ast.Ident); ok && name.Name == "Args" {
					f.args(kv.Value)
				}
			} else if str, ok := t.Underlying().(*types.Struct); ok && str.Field(i).Name() == "Args" {
				f.args(elt)
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			sel, ok := left.(*ast.SelectorExpr)
			if ok && len(n.Lhs) == len(n.Rhs) && sel.Sel.Name == "Args" && api.IsNamed(info.TypeOf(sel.X), api.Dedup, "Call") {
				f.args(n.Rhs[i])
			}
		}
	case *ast.CallExpr:
		fn := api.Callee(info, n)
		switch {
		case api.IsFunc(fn, api.Dedup, "FingerprintOf") && len(n.Args) == 1:
			f.args(n.Args[0])
		case api.IsFunc(fn, api.Dedup, "KeyFromArgsMergingRepeats") && len(n.Args) == 2:
			f.args(n.Args[1])
		case api.IsFunc(fn, api.Dedup, "Do", "DoTx"):
			if sig, ok := info.TypeOf(n.Fun).(*types.Signature); ok && sig.Results().Len() > 0 {
				if result, ok := types.Unalias(sig.Results().At(0).Type()).(*types.Named); ok && result.TypeArgs().Len() == 1 {
					f.result(n, "the result", result.TypeArgs().At(0))
				}
			}
		}
	}
}

// toolTypes are the In and Out of a tool.Tool or an external.Tool, nil for other types.
func toolTypes(t types.Type) (in, out types.Type) {
	if !api.IsNamed(t, api.Tool, "Tool") && !api.IsNamed(t, api.External, "Tool") {
		return nil, nil
	}
	if named, ok := types.Unalias(t).(*types.Named); ok && named.TypeArgs().Len() == 2 {
		return named.TypeArgs().At(0), named.TypeArgs().At(1)
	}
	return nil, nil
}

func (f finder) input(at ast.Node, t types.Type) {
	if lost := lossOf(t, true); lost != "" {
		f.pass.Reportf(at.Pos(), "In loses a part of what it holds as JSON: %s", lost)
	}
}

func (f finder) args(value ast.Expr) {
	if lost := lossOf(f.pass.TypesInfo.TypeOf(value), true); lost != "" {
		f.pass.Reportf(value.Pos(), "arguments lose a part of what they hold as JSON: %s", lost)
	}
}

func (f finder) result(at ast.Node, what string, t types.Type) {
	if lost := lossOf(t, false); lost != "" {
		f.pass.Reportf(at.Pos(), "%s loses a part of what it holds as JSON: %s", what, lost)
	}
}
