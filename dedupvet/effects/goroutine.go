package effects

import (
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

var goroutine = code.NewAnalyzer("effectgoroutine", `report goroutines of effects that use the effect's transaction

A transaction is one connection, which does one thing at a time: two goroutines
find it busy, or mix their statements up. A goroutine that outlives the effect
uses a connection that then belongs to another call.`,
	inEffects(func(pass *analysis.Pass, r *region, call ssa.CallInstruction) {
		if slices.ContainsFunc(started(call), r.handle) {
			pass.Reportf(call.Pos(), "a goroutine uses the transaction %s: this is one connection, which does one thing at a time and ends with the effect; use it on the effect's own goroutine", r.where())
		}
	}), regions)

// started returns the values that a call passes to another goroutine: all of a go statement, and
// the function that errgroup.Group.Go, sync.WaitGroup.Go and the like, or a timer, get.
func started(in ssa.CallInstruction) []ssa.Value {
	call := in.Common()
	if _, isGo := in.(*ssa.Go); isGo {
		return append([]ssa.Value{call.Value}, call.Args...)
	}
	fn, args := code.Callee(call), code.Args(call)
	switch {
	case fn == nil:
	case api.IsFunc(fn, "time", "AfterFunc"), api.IsFunc(fn, "context", "AfterFunc"):
		return args[1:]
	case code.Receiver(call) != nil && (fn.Name() == "Go" || fn.Name() == "TryGo") && len(args) == 1 && code.IsFunction(args[0].Type()):
		return args
	}
	return nil
}
