package effects

import (
	"go/constant"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

type finder struct {
	pkg     *types.Package
	code    *code.Code
	regions map[*ssa.Function]*region
	found   []*region
	queue   []*region // regions whose calls are not followed yet
}

// findEffects finds the effects in a function. Conversions to dedup.Effect are effects. So are
// functions with a transaction parameter that are passed to packages dedup, tool, external and
// riverdedup: the Run of a tool, the Archive of a sweep, the Finish of an external tool. Functions
// that are passed to packages sqldedup and gormdedup are effects too. The Perform of an external
// tool has no transaction and is not an effect. A handler that is wrapped or intercepted is an
// effect if it asks for its transaction.
func (f *finder) findEffects(fn *ssa.Function) {
	for in := range code.Instructions(fn) {
		switch in := in.(type) {
		case *ssa.ChangeType:
			if api.IsNamed(in.Type(), api.Dedup, "Effect") {
				f.addAll(in.X, true, false)
			}
		case ssa.CallInstruction:
			if api.IsDoorTx(code.Callee(in.Common())) {
				f.addHandler(fn)
			}
			if callee := code.Callee(in.Common()); callee != nil && f.isDedup(callee.Pkg()) {
				for _, arg := range code.Args(in.Common()) {
					if takesTx(arg.Type()) || isSQL(callee.Pkg()) && code.IsFunction(arg.Type()) {
						f.addAll(arg, true, false)
					}
				}
				if isSQL(callee.Pkg()) && callee.Name() == "DoTx" {
					f.addCallersTx(in.Common())
				}
			}
		case *ssa.Store:
			owner, field, _ := code.Field(in.Addr)
			if named, ok := owner.(*types.Named); ok && f.isDedup(named.Obj().Pkg()) && takesTx(field.Type()) {
				f.addAll(in.Val, true, isReadOnly(in))
			}
		}
	}
}

// addHandler adds a function that asks httpdedup, mcpdedup, grpcdedup or connectdedup for its
// transaction, or, if it returns the transaction, its callers.
func (f *finder) addHandler(fn *ssa.Function) {
	f.add(fn, true, false)
	for result := range fn.Signature.Results().Variables() {
		if !api.IsTx(result.Type()) {
			continue
		}
		for _, call := range f.code.Callers(fn) {
			f.add(call.Parent(), true, false)
		}
	}
}

func (f *finder) isDedup(p *types.Package) bool {
	return p != nil && p != f.pkg && (slices.Contains([]string{api.Dedup, api.Tool, api.External, api.River}, p.Path()) || isSQL(p))
}

// isSQL reports whether a package passes transactions of database/sql to effects.
func isSQL(p *types.Package) bool { return p.Path() == api.SQLDedup || p.Path() == api.Gorm }

// isReadOnly reports whether a function is assigned to a tool whose Class is ReadOnly.
func isReadOnly(run *ssa.Store) bool {
	_, _, tool := code.Field(run.Addr)
	for other := range code.Instructions(run.Parent()) {
		store, ok := other.(*ssa.Store)
		if !ok {
			continue
		}
		owner, field, base := code.Field(store.Addr)
		if base != tool || base == nil || field.Name() != "Class" || !api.IsNamed(owner, api.Tool, "Tool") {
			continue
		}
		value, isConst := store.Val.(*ssa.Const)
		readOnly, _ := field.Type().(*types.Named).Obj().Pkg().Scope().Lookup("ReadOnly").(*types.Const)
		return isConst && readOnly != nil && constant.Compare(value.Value, token.EQL, readOnly.Val())
	}
	return false
}

// findHelpers follows the calls from effects to functions of this package, and further from these.
func (f *finder) findHelpers() {
	for len(f.queue) > 0 {
		r := f.queue[0]
		f.queue = f.queue[1:]
		for call := range r.calls() {
			values := []ssa.Value{call.Common().Value}
			if param, ok := values[0].(*ssa.Parameter); ok && param.Parent() == r.fn {
				continue // added for the argument
			}
			if len(f.code.Functions(values[0])) > 0 {
				values = append(values, call.Common().Args...)
			}
			for _, value := range values {
				if !code.IsFunction(value.Type()) {
					continue
				}
				for _, fn := range f.code.Functions(value) {
					if !r.holds(fn) {
						f.add(fn, false, r.readOnly)
						if helper := f.regions[fn]; helper.callers == nil {
							helper.callers = r.callers
						}
					}
				}
			}
		}
	}
}

func (f *finder) addAll(v ssa.Value, effect, readOnly bool) {
	for _, fn := range f.code.Functions(v) {
		f.add(fn, effect, readOnly)
	}
}

func (f *finder) add(fn *ssa.Function, effect, readOnly bool) {
	if r := f.regions[fn]; r != nil {
		if r.readOnly && !readOnly { // and the functions that it calls
			r.readOnly = false
			f.queue = append(f.queue, r)
		}
		return
	}
	r := &region{fn: fn, effect: effect, readOnly: readOnly, code: f.code, regions: f.regions}
	f.regions[fn] = r
	f.found = append(f.found, r)
	f.queue = append(f.queue, r)
}

// takesTx reports whether t is a function with a transaction among its parameters.
func takesTx(t types.Type) bool {
	sig, ok := t.Underlying().(*types.Signature)
	if !ok {
		return false
	}
	for v := range sig.Params().Variables() {
		if api.IsTx(v.Type()) {
			return true
		}
	}
	return false
}
