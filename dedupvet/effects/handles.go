package effects

import (
	"go/types"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// predates reports whether a value existed before the region began: a captured variable, a field of
// one, or a value assigned from these.
func (r *region) predates(v ssa.Value) bool {
	return code.Search(v, func(v ssa.Value) (found bool, from []ssa.Value) {
		switch v := v.(type) {
		case *ssa.Global:
			return true, nil
		case *ssa.Parameter: // dedup does not pass the receiver of an effect
			return r.effect && v.Parent() == r.fn && isReceiver(v), nil
		case *ssa.Call:
			if fn := code.Callee(&v.Call); fn != nil && fn.Name() == "Conn" {
				return false, []ssa.Value{code.Receiver(&v.Call)}
			}
		case *ssa.FreeVar:
			if v.Parent() == r.fn {
				return true, nil
			}
		}
		return false, r.code.From(v)
	})
}

// handle reports whether a value works on the effect's transaction: it is the transaction, or was
// made from it.
func (r *region) handle(v ssa.Value) bool {
	return code.Search(v, func(v ssa.Value) (found bool, from []ssa.Value) {
		if !mayHold(v) {
			return false, nil
		}
		switch v := v.(type) {
		case *ssa.Parameter:
			if isReceiver(v) {
				return !(r.effect && v.Parent() == r.fn) && holdsTx(v.Type()), nil
			}
			return api.IsHandle(v.Type()), nil
		case *ssa.FreeVar:
			if v.Parent() == r.fn {
				return false, nil
			}
		case *ssa.Call:
			return api.IsDoorTx(code.Callee(&v.Call)), append([]ssa.Value{code.Receiver(&v.Call)}, code.Args(&v.Call)...)
		case *ssa.Alloc:
			return false, append(r.code.From(v), code.FieldsOf(v)...)
		}
		return false, r.code.From(v)
	})
}

// mayHold reports whether a value's type can hold a handle, or the address of one. A closure's type
// does not show its captured variables, so it always may.
func mayHold(v ssa.Value) bool {
	switch v.(type) {
	case *ssa.MakeClosure, *ssa.Call: // the type of a call is its Extract's
		return true
	}
	t := v.Type()
	return api.HoldsHandle(t) || api.HoldsHandle(api.Elem(t)) || code.IsFunction(api.Elem(t))
}

// holdsTx reports whether a receiver holds a transaction. A service with unbound queries does not.
func holdsTx(t types.Type) bool {
	s, ok := api.Elem(t).Underlying().(*types.Struct)
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
