package effects

import (
	"go/ast"
	"go/types"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// Handles are the variables of the region that work on the effect's transaction:
// the transaction itself, and whatever holds something got from it.
func (r *Region) Handles() map[*types.Var]bool {
	handles := make(map[*types.Var]bool)
	for _, param := range r.params {
		handles[param] = api.IsHandle(param.Type())
	}
	if r.recv != nil && !r.Effect {
		handles[r.recv] = holdsTx(r.recv.Type())
	}
	var locals []*types.Var
	r.Walk(func(n ast.Node, _ []ast.Node) {
		id, ok := n.(*ast.Ident)
		if !ok {
			return
		}
		v, ok := r.info.Defs[id].(*types.Var)
		if !ok {
			return
		}
		locals = append(locals, v)
		// A parameter of a literal: what pgx.BeginFunc gives, say.
		handles[v] = handles[v] || len(r.defs.Of(v)) == 0 && api.IsHandle(v.Type())
	})
	for changed := true; changed; {
		changed = false
		for _, v := range locals {
			if !handles[v] && r.givenHandle(v, handles) {
				handles[v], changed = true, true
			}
		}
	}
	return handles
}

func (r *Region) givenHandle(v *types.Var, handles map[*types.Var]bool) bool {
	for _, def := range r.defs.Of(v) {
		if _, isLit := def.Value.(*ast.FuncLit); !isLit && !api.HoldsHandle(v.Type()) {
			continue
		}
		if api.Mentions(r.info, def.Value, func(v *types.Var) bool { return handles[v] }) {
			return true
		}
	}
	return false
}

// holdsTx tells whether a receiver carries a transaction. A service that holds
// unbound queries does not.
func holdsTx(t types.Type) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for field := range s.Fields() {
		if api.IsTx(field.Type()) {
			return true
		}
	}
	return false
}
