package droppederror

import (
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// behindSavepoint reports whether the failure of a call leaves the transaction as
// it was: the call makes a savepoint, or works on one.
func (c *checker) behindSavepoint(call *ssa.CallCommon) bool {
	if begins(call) || api.IsFunc(code.Callee(call), api.Dedup, "DoTx") {
		return true
	}
	for _, v := range append([]ssa.Value{call.Value}, call.Args...) {
		if source, ok := c.region.Source(v); ok && source.Savepoint {
			return true
		}
	}
	fns := c.code.Functions(call.Value)
	return len(fns) == 1 && makesSavepoint(fns[0])
}

// makesSavepoint reports whether a function does nothing with the transaction that it
// is given but to begin savepoints from it.
func makesSavepoint(fn *ssa.Function) bool {
	found := false
	for _, param := range fn.Params {
		if !api.HoldsHandle(param.Type()) {
			continue
		}
		for _, use := range passedOn(param) {
			call, ok := use.(ssa.CallInstruction)
			if !ok || !begins(call.Common()) && !isBegin(call.Common(), param) {
				return false
			}
			found = true
		}
	}
	return found
}

// passedOn are the uses of a value, and of it as another interface.
func passedOn(v ssa.Value) (uses []ssa.Instruction) {
	for _, use := range code.Uses(v) {
		if converted, ok := use.(*ssa.ChangeInterface); ok {
			uses = append(uses, passedOn(converted)...)
		} else {
			uses = append(uses, use)
		}
	}
	return uses
}

func isBegin(call *ssa.CallCommon, tx ssa.Value) bool {
	return call.IsInvoke() && call.Value == tx && call.Method.Name() == "Begin"
}

func begins(call *ssa.CallCommon) bool {
	return api.IsFunc(code.Callee(call), api.PGX, "BeginFunc", "BeginTxFunc")
}
