package effects

import (
	"go/ast"
	"go/types"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// Outside tells whether what e stands for was there before the region began: a
// captured variable, a field of one, or something that was assigned from these.
func (r *Region) Outside(e ast.Expr) bool { return r.outside(e, make(map[*types.Var]bool)) }

func (r *Region) outside(e ast.Expr, seen map[*types.Var]bool) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		v, ok := r.info.ObjectOf(e).(*types.Var)
		if !ok || seen[v] {
			return false
		}
		if !r.Declares(v) {
			return true
		}
		seen[v] = true
		for _, def := range r.defs.Of(v) {
			if r.outside(def.Value, seen) {
				return true
			}
		}
		return false
	case *ast.SelectorExpr:
		if _, isField := r.info.Selections[e]; !isField {
			return true // a variable of another package
		}
		return r.outside(e.X, seen)
	case *ast.StarExpr:
		return r.outside(e.X, seen)
	case *ast.UnaryExpr:
		return r.outside(e.X, seen)
	case *ast.TypeAssertExpr:
		return r.outside(e.X, seen)
	case *ast.IndexExpr:
		return r.outside(e.X, seen)
	case *ast.CallExpr:
		switch fn := api.Callee(r.info, e); {
		case r.info.Types[e.Fun].IsType() && len(e.Args) == 1:
			return r.outside(e.Args[0], seen) // a conversion
		case fn != nil && fn.Name() == "Conn" && api.Receiver(r.info, e) != nil:
			return r.outside(api.Receiver(r.info, e), seen)
		}
	}
	return false
}
