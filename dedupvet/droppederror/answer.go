package droppederror

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// asks tells whether a call is errors.Is or errors.As.
func (c *checker) asks(call *ast.CallExpr) bool {
	return api.IsFunc(api.Callee(c.info, call), "errors", "Is", "As") && len(call.Args) == 2
}

// findsAnswer tells whether a condition finds an error that no failed statement
// has: that there was no row, or one that the program made of what it read.
func (c *checker) findsAnswer(cond ast.Expr) bool {
	switch cond := ast.Unparen(cond).(type) {
	case *ast.BinaryExpr:
		return cond.Op == token.LAND && (c.findsAnswer(cond.X) || c.findsAnswer(cond.Y)) ||
			cond.Op == token.EQL && c.errorVar(cond.X) != nil && !c.info.Types[cond.Y].IsNil() && !c.isFailure(cond.Y)
	case *ast.CallExpr:
		if !c.asks(cond) {
			return false
		}
		if api.Callee(c.info, cond).Name() == "As" {
			return !isFailureType(c.info.TypeOf(cond.Args[1]))
		}
		return !c.isFailure(cond.Args[1])
	}
	return false
}

// isFailure tells whether an error to compare with is one of pgx, or of a context
// that is done, and so tells of a statement that failed.
func (c *checker) isFailure(e ast.Expr) bool {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	obj := c.info.ObjectOf(sel.Sel)
	if obj == nil || obj.Pkg() == nil {
		return false
	}
	if obj.Pkg().Path() == "context" {
		return true
	}
	return api.InPGX(obj.Pkg()) && obj.Name() != "ErrNoRows" && obj.Name() != "ErrTooManyRows"
}

// isFailureType tells whether errors.As with a target looks for an error of pgx,
// or for an SQLSTATE.
func isFailureType(target types.Type) bool {
	ptr, ok := target.Underlying().(*types.Pointer)
	if !ok {
		return false
	}
	t := types.Unalias(ptr.Elem())
	if method, _, _ := types.LookupFieldOrMethod(t, true, nil, "SQLState"); method != nil {
		return true
	}
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	named, ok := t.(*types.Named)
	return ok && api.InPGX(named.Obj().Pkg())
}
