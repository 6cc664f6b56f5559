package effects

import (
	"go/ast"
	"go/types"

	"github.com/tooldedup/dedup/dedupvet/internal/defs"
)

// resolve returns the functions of this package, as literals and declarations,
// that an expression of a function's type may stand for. It sees through local
// variables, conversions, functions that return functions, and parameters of
// functions that this package calls.
func (f *finder) resolve(e ast.Expr) []ast.Node {
	clear(f.seen)
	return f.functions(e)
}

func (f *finder) functions(e ast.Expr) []ast.Node {
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		return []ast.Node{e}
	case *ast.Ident:
		return f.functionsOf(f.info.ObjectOf(e))
	case *ast.SelectorExpr:
		return f.functionsOf(f.info.ObjectOf(e.Sel))
	case *ast.IndexExpr: // of a generic function
		return f.functions(e.X)
	case *ast.IndexListExpr:
		return f.functions(e.X)
	case *ast.CallExpr:
		if f.info.Types[e.Fun].IsType() && len(e.Args) == 1 {
			return f.functions(e.Args[0])
		}
		var returned []ast.Node
		for _, maker := range f.functions(e.Fun) {
			returned = append(returned, f.returned(maker)...)
		}
		return returned
	}
	return nil
}

func (f *finder) functionsOf(obj types.Object) []ast.Node {
	switch obj := obj.(type) {
	case *types.Func:
		if decl := f.defs.Func(obj); decl != nil {
			return []ast.Node{decl}
		}
	case *types.Var:
		if f.seen[obj] || !isFunction(obj.Type()) {
			return nil
		}
		f.seen[obj] = true
		var fns []ast.Node
		for _, def := range f.defs.Of(obj) {
			if _, isTuple := f.info.TypeOf(def.Value).(*types.Tuple); !isTuple {
				fns = append(fns, f.functions(def.Value)...)
			}
		}
		if param, ok := f.defs.Param(obj); ok {
			fns = append(fns, f.given(param)...)
		}
		return fns
	}
	return nil
}

// given returns what a parameter is given by the calls in this package.
func (f *finder) given(param defs.Param) []ast.Node {
	var fns []ast.Node
	for _, call := range f.defs.Calls(param.Func) {
		if param.Index < len(call.Args) {
			fns = append(fns, f.functions(call.Args[param.Index])...)
		}
	}
	return fns
}

// returned returns the functions that a function returns.
func (f *finder) returned(maker ast.Node) []ast.Node {
	body := body(maker)
	if body == nil {
		return nil
	}
	var fns []ast.Node
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // its returns are its own
		case *ast.ReturnStmt:
			for _, result := range n.Results {
				if isFunction(f.info.TypeOf(result)) {
					fns = append(fns, f.functions(result)...)
				}
			}
		}
		return true
	})
	return fns
}

func body(fn ast.Node) *ast.BlockStmt {
	switch fn := fn.(type) {
	case *ast.FuncLit:
		return fn.Body
	case *ast.FuncDecl:
		return fn.Body
	}
	return nil
}

func isFunction(t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Signature)
	return ok
}
