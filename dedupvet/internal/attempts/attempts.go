// Package attempts finds the code that makes attempts outside of the database: the Perform of
// an external.Tool, and the functions of its package that it calls.
package attempts

import (
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// Of returns the functions of a package that run in an attempt, with the literals in them.
func Of(c *code.Code) map[*ssa.Function]bool {
	found := make(map[*ssa.Function]bool)
	var add func(fn *ssa.Function)
	addAll := func(v ssa.Value) {
		for _, fn := range c.Functions(v) {
			add(fn)
		}
	}
	add = func(fn *ssa.Function) {
		if found[fn] {
			return
		}
		found[fn] = true
		for _, literal := range fn.AnonFuncs {
			add(literal)
		}
		for in := range code.Instructions(fn) {
			if call, ok := in.(ssa.CallInstruction); ok {
				addAll(call.Common().Value)
			}
		}
	}
	for _, fn := range c.Funcs {
		for in := range code.Instructions(fn) {
			if store, ok := in.(*ssa.Store); ok {
				owner, field, _ := code.Field(store.Addr)
				if field != nil && field.Name() == "Perform" && api.IsNamed(owner, api.External, "Tool") {
					addAll(store.Val)
				}
			}
		}
	}
	return found
}
