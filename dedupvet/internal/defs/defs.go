// Package defs knows, for one package, what every variable was given and where
// every function is: as much of data flow as the analyzers need. It takes no
// account of order: a variable has all the values that it is ever given.
package defs

import (
	"go/ast"
	"go/types"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// Analyzer makes the *Defs of a package for other analyzers.
var Analyzer = &analysis.Analyzer{
	Name:       "dedupdefs",
	Doc:        "collect what variables are given, for the analyzers of dedupvet",
	Requires:   []*analysis.Analyzer{inspect.Analyzer},
	ResultType: reflect.TypeFor[*Defs](),
	Run:        func(pass *analysis.Pass) (any, error) { return collect(pass), nil },
}

// Def is one value that a variable is given.
type Def struct {
	// Node is the statement or declaration that gives it.
	Node ast.Node
	// Value is the expression, and Index which of its results, where it is a call
	// with several.
	Value ast.Expr
	Index int
}

// Param is a parameter of a declared function.
type Param struct {
	Func  *types.Func
	Index int
}

// Defs is what is known of a package.
type Defs struct {
	info   *types.Info
	vars   map[*types.Var][]Def
	funcs  map[*types.Func]*ast.FuncDecl
	params map[*types.Var]Param
	calls  map[*types.Func][]*ast.CallExpr
}

// Of returns the values that v is given by assignments and declarations, in the
// order of the source. A parameter or a range's variable has none of its own.
func (d *Defs) Of(v *types.Var) []Def { return d.vars[v] }

// Func returns the declaration of a function of this package, nil for others.
func (d *Defs) Func(fn *types.Func) *ast.FuncDecl {
	if fn == nil {
		return nil
	}
	return d.funcs[fn.Origin()]
}

// Param tells whose parameter v is.
func (d *Defs) Param(v *types.Var) (Param, bool) {
	p, ok := d.params[v]
	return p, ok
}

// Calls returns the calls of fn in this package.
func (d *Defs) Calls(fn *types.Func) []*ast.CallExpr { return d.calls[fn.Origin()] }

func collect(pass *analysis.Pass) *Defs {
	d := &Defs{
		info:   pass.TypesInfo,
		vars:   make(map[*types.Var][]Def),
		funcs:  make(map[*types.Func]*ast.FuncDecl),
		params: make(map[*types.Var]Param),
		calls:  make(map[*types.Func][]*ast.CallExpr),
	}
	nodes := []ast.Node{(*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.FuncDecl)(nil), (*ast.CallExpr)(nil)}
	pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Preorder(nodes, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			d.assign(n, n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			names := make([]ast.Expr, len(n.Names))
			for i, name := range n.Names {
				names[i] = name
			}
			d.assign(n, names, n.Values)
		case *ast.FuncDecl:
			d.declare(n)
		case *ast.CallExpr:
			if fn := api.Callee(d.info, n); fn != nil && fn.Pkg() == pass.Pkg {
				d.calls[fn] = append(d.calls[fn], n)
			}
		}
	})
	return d
}

func (d *Defs) assign(n ast.Node, lhs, rhs []ast.Expr) {
	for i, left := range lhs {
		id, ok := left.(*ast.Ident)
		if !ok {
			continue
		}
		v, ok := d.info.ObjectOf(id).(*types.Var)
		if !ok {
			continue
		}
		switch {
		case len(rhs) == len(lhs):
			d.vars[v] = append(d.vars[v], Def{Node: n, Value: rhs[i]})
		case len(rhs) == 1:
			d.vars[v] = append(d.vars[v], Def{Node: n, Value: rhs[0], Index: i})
		}
	}
}

func (d *Defs) declare(decl *ast.FuncDecl) {
	fn, ok := d.info.Defs[decl.Name].(*types.Func)
	if !ok {
		return
	}
	d.funcs[fn] = decl
	params := fn.Signature().Params()
	for i := range params.Len() {
		d.params[params.At(i)] = Param{Func: fn, Index: i}
	}
}
