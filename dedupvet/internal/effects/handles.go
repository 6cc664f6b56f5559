package effects

import (
	"cmp"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// Outside reports whether a value was there before the region began: a captured
// variable, a field of one, or something that was assigned from these.
func (r *Region) Outside(v ssa.Value) bool { return r.outside(v, make(map[ssa.Value]bool)) }

func (r *Region) outside(v ssa.Value, seen map[ssa.Value]bool) bool {
	if v == nil || seen[v] {
		return false
	}
	seen[v] = true
	switch v := v.(type) {
	case *ssa.Global:
		return true
	case *ssa.Parameter: // dedup does not hand over the receiver of an effect
		return r.Effect && v.Parent() == r.Func && isReceiver(v)
	case *ssa.Call:
		return isNamed(v, "Conn") && r.outside(code.Receiver(&v.Call), seen)
	case *ssa.FreeVar:
		if v.Parent() == r.Func {
			return true
		}
	}
	return slices.ContainsFunc(r.code.From(v), func(v ssa.Value) bool { return r.outside(v, seen) })
}

func isNamed(call *ssa.Call, name string) bool {
	fn := code.Callee(&call.Call)
	return fn != nil && fn.Name() == name
}

// Handle reports whether a value works on the effect's transaction: it is the
// transaction itself, or holds something got from it.
func (r *Region) Handle(v ssa.Value) bool { _, ok := r.Source(v); return ok }

// Source names the first value of the region's own that makes a value a handle: v
// itself where it has a name.
func (r *Region) Source(v ssa.Value) (name string, ok bool) {
	return r.source(v, make(map[ssa.Value]bool))
}

func (r *Region) source(v ssa.Value, seen map[ssa.Value]bool) (name string, ok bool) {
	if v == nil || seen[v] {
		return "", false
	}
	seen[v] = true
	if !mayHold(v) {
		return "", false
	}
	from := r.code.From(v)
	switch v := v.(type) {
	case *ssa.Parameter:
		ok := api.IsHandle(v.Type())
		if isReceiver(v) {
			ok = !(r.Effect && v.Parent() == r.Func) && holdsTx(v.Type())
		}
		return code.Name(v), ok
	case *ssa.FreeVar:
		if v.Parent() == r.Func {
			return "", false
		}
	case *ssa.Call:
		if api.IsDoorTx(code.Callee(&v.Call)) {
			return code.Name(v), true
		}
		from = append([]ssa.Value{code.Receiver(&v.Call)}, code.Args(&v.Call)...)
	case *ssa.Alloc:
		from = append(from, fields(v)...)
	}
	for _, f := range from {
		if name, ok := r.source(f, seen); ok {
			return cmp.Or(code.Name(v), name), true
		}
	}
	return "", false
}

// mayHold reports whether a value is of a type that holds handles, or the address of
// one. What a literal captures has no type.
func mayHold(v ssa.Value) bool {
	switch v.(type) {
	case *ssa.MakeClosure, *ssa.Call: // of which an Extract is looked at
		return true
	}
	t := v.Type()
	return api.HoldsHandle(t) || api.HoldsHandle(pointed(t)) || code.IsFunction(pointed(t))
}

// fields are the values that a struct literal is given.
func fields(v *ssa.Alloc) (given []ssa.Value) {
	for _, use := range code.Uses(v) {
		if addr, ok := use.(*ssa.FieldAddr); ok {
			for _, use := range code.Uses(addr) {
				if store, ok := use.(*ssa.Store); ok {
					given = append(given, store.Val)
				}
			}
		}
	}
	return given
}

// holdsTx reports whether a receiver carries a transaction. A service that holds
// unbound queries does not.
func holdsTx(t types.Type) bool {
	s, ok := pointed(t).Underlying().(*types.Struct)
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
