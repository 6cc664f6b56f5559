package droppederror

import (
	"go/ast"
	"go/types"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// behindSavepoint tells whether the failure of a call leaves the transaction as
// it was: the call makes a savepoint, or works on one.
func (c *checker) behindSavepoint(call *ast.CallExpr) bool {
	fn := api.Callee(c.info, call)
	if api.IsFunc(fn, api.PGX, "BeginFunc", "BeginTxFunc") || api.IsFunc(fn, api.Dedup, "DoTx") {
		return true
	}
	return c.makesSavepoint(fn) || c.onSavepoint(call, make(map[*types.Var]bool))
}

func (c *checker) onSavepoint(n ast.Node, seen map[*types.Var]bool) bool {
	return api.Mentions(c.info, n, func(v *types.Var) bool {
		if !c.handles[v] || seen[v] {
			return false
		}
		seen[v] = true
		for _, def := range c.defs.Of(v) {
			call, ok := ast.Unparen(def.Value).(*ast.CallExpr)
			if !ok {
				continue
			}
			if fn := api.Callee(c.info, call); fn != nil && fn.Name() == "Begin" || c.onSavepoint(call, seen) {
				return true
			}
		}
		return false
	})
}

// makesSavepoint tells whether a function of this package does nothing with the
// transaction that it is given but to begin savepoints from it.
func (c *checker) makesSavepoint(fn *types.Func) bool {
	decl := c.defs.Func(fn)
	if decl == nil || decl.Body == nil {
		return false
	}
	given := make(map[*types.Var]bool)
	for param := range fn.Signature().Params().Variables() {
		given[param] = api.HoldsHandle(param.Type())
	}
	begins, others := false, false
	ast.PreorderStack(decl.Body, nil, func(n ast.Node, stack []ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if v, ok := c.info.Uses[id].(*types.Var); ok && given[v] {
				begin := c.begins(id, stack)
				begins, others = begins || begin, others || !begin
			}
		}
		return true
	})
	return begins && !others
}

// begins tells whether a transaction is used to begin a savepoint: as in
// tx.Begin(ctx), or given to pgx.BeginFunc.
func (c *checker) begins(tx *ast.Ident, stack []ast.Node) bool {
	switch parent := stack[len(stack)-1].(type) {
	case *ast.SelectorExpr:
		return parent.Sel.Name == "Begin"
	case *ast.CallExpr:
		return parent.Fun != tx && api.IsFunc(api.Callee(c.info, parent), api.PGX, "BeginFunc", "BeginTxFunc")
	}
	return false
}
