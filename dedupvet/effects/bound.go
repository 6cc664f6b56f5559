package effects

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// bound reports whether a value of database/sql or of an ORM works on the effect's transaction. It
// does if it comes from package sqldedup or was made from such a value. In an effect of
// sqldedup.DoTx it also does if it was made from the caller's transaction. A value that was made
// from one that is reported elsewhere counts as bound.
//
// seen are the values that were looked at before.
func (r *region) bound(v ssa.Value, seen map[ssa.Value]bool) bool {
	if seen == nil {
		seen = make(map[ssa.Value]bool)
	}
	if v == nil || seen[v] || api.IsNamed(v.Type(), "context", "Context") {
		return false
	}
	seen[v] = true
	if r.callers[v] {
		return true
	}
	from := r.code.From(v)
	switch v := v.(type) {
	case *ssa.Parameter:
		switch {
		case !r.holds(v.Parent()): // outside the effect of DoTx
			return false
		case r.effect && v.Parent() == r.fn && isReceiver(v):
			return r.callers != nil // the receiver may hold the caller's transaction
		case api.IsPool(v.Type()):
			return false
		case api.IsForeign(v.Type()) || isReceiver(v) || code.IsFunction(v.Type()):
			return r.isGiven(v, seen)
		default:
			return api.IsHandle(v.Type())
		}
	case *ssa.FreeVar:
		if v.Parent() == r.fn && r.callers == nil {
			return r.around(func(around *region) bool { return around.bound(from[0], seen) })
		}
	case *ssa.FieldAddr:
		_, field, _ := code.Field(v)
		if r.callers[field] {
			return true
		}
		if isDatabase(field.Type()) && ofReceiver(v.X) {
			return false
		}
	case *ssa.Alloc:
		from = append(from, code.FieldsOf(v)...)
	case *ssa.Call:
		fn, on := code.Callee(&v.Call), code.Receiver(&v.Call)
		from = append(slices.Clone(v.Call.Args), v.Call.Value)
		if !r.holds(v.Parent()) {
			break
		}
		if v.Call.StaticCallee() == nil && !v.Call.IsInvoke() && len(v.Call.Args) > 0 {
			return true // a call through a variable, which may make anything of its arguments
		}
		if on != nil && api.IsForeign(on.Type()) && api.IsStatement(fn) || slices.ContainsFunc(code.Args(&v.Call), func(arg ssa.Value) bool { return api.IsForeign(arg.Type()) }) {
			return true // bound, or reported at this call
		}
	}
	for _, f := range append(from, connPools(v)...) {
		if r.bound(f, seen) {
			return true
		}
	}
	return false
}

// isGiven reports whether a parameter holds the handle of an effect: every call of the function in
// an effect passes a bound value.
func (r *region) isGiven(v *ssa.Parameter, seen map[ssa.Value]bool) bool {
	i, known := slices.Index(v.Parent().Params, v), false
	for _, call := range r.code.Callers(v.Parent()) {
		for _, caller := range r.regions {
			if args := call.Common().Args; caller.holds(call.Parent()) && i < len(args) && !seen[args[i]] {
				if !caller.bound(args[i], seen) {
					return false
				}
				known = true
			}
		}
	}
	return known || !isReceiver(v) || holdsTx(v.Type())
}

// around reports whether holds is true for a region around the literal that r is. Only literals
// that an effect calls have such regions.
func (r *region) around(holds func(*region) bool) bool {
	for _, other := range r.regions {
		if !r.effect && other.holds(r.fn.Parent()) && holds(other) {
			return true
		}
	}
	return false
}

// isDatabase reports whether t begins transactions and is not a transaction.
func isDatabase(t types.Type) bool {
	return api.IsForeign(t) && !api.IsSQLTx(t)
}

func ofReceiver(v ssa.Value) bool {
	if load, ok := v.(*ssa.UnOp); ok {
		v = load.X
	}
	param, ok := v.(*ssa.Parameter)
	return ok && isReceiver(param)
}

// connPools returns the values that are assigned to session.Statement.ConnPool of a gorm session.
func connPools(session ssa.Value) (pools []ssa.Value) {
	for _, use := range code.Uses(session) {
		switch use := use.(type) {
		case *ssa.FieldAddr:
			_, field, _ := code.Field(use)
			if name := field.Name(); name != "Statement" && name != "ConnPool" {
				continue
			}
			for _, use := range code.Uses(use) {
				switch use := use.(type) {
				case *ssa.UnOp:
					pools = append(pools, connPools(use)...)
				case *ssa.Store:
					pools = append(pools, use.Val)
				}
			}
		}
	}
	return pools
}

// addCallersTx records, for the effects of a sqldedup.DoTx, the origin of its transaction: all
// values and fields that hold it in any form.
func (f *finder) addCallersTx(call *ssa.CallCommon) {
	args := code.Args(call)
	const tx, effect = 2, 4
	found, seen := make(map[any]bool), make(map[ssa.Value]bool)
	var follow func(v ssa.Value)
	follow = func(v ssa.Value) {
		if v == nil || seen[v] {
			return
		}
		seen[v] = true
		if param, ok := v.(*ssa.Parameter); ok {
			for _, given := range f.code.Given(param) {
				follow(given)
			}
		}
		if call, ok := v.(*ssa.Call); ok { // a wrapper that a function of the caller made of the transaction
			for _, arg := range code.Args(&call.Call) {
				follow(unconverted(arg))
			}
		}
		holds := func(t types.Type) bool { return api.IsForeign(t) || api.IsHandle(t) }
		if holds(v.Type()) || holds(api.Elem(v.Type())) {
			found[v] = true
		}
		known := len(found)
		for _, from := range f.code.From(v) {
			follow(from)
		}
		if _, field, _ := code.Field(v); field != nil && holds(field.Type()) && len(found) == known {
			found[field] = true // a field of a struct that is not a handle
		}
	}
	follow(args[tx])
	for _, fn := range f.code.Functions(args[effect]) {
		r := f.regions[fn]
		if r.callers == nil {
			r.callers = make(map[any]bool)
		}
		for origin := range found {
			r.callers[origin] = true
		}
	}
}
