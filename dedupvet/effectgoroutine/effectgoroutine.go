// Package effectgoroutine finds goroutines that work on an effect's transaction.
package effectgoroutine

import (
	"go/token"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
	"github.com/tooldedup/dedup/dedupvet/internal/effects"
	"github.com/tooldedup/dedup/dedupvet/internal/ignore"
)

// Analyzer reports them.
var Analyzer = &analysis.Analyzer{
	Name: "effectgoroutine",
	Doc: `report goroutines of effects that use the effect's transaction

A transaction is one connection, which does one thing at a time: two goroutines
find it busy, or mix their statements up. And a goroutine that outlives the
effect uses a connection that serves somebody else by then.`,
	Requires: []*analysis.Analyzer{effects.Analyzer, code.Analyzer},
	Run: ignore.Run(func(pass *analysis.Pass) (any, error) {
		for _, region := range effects.Of(pass) {
			for call := range region.Calls() {
				for _, value := range started(call) {
					if handle, ok := region.Source(value); ok {
						pass.Reportf(position(pass, call), "a goroutine uses %s %s: a transaction is one connection, which does one thing at a time and ends with the effect; use it on the effect's own goroutine",
							handle, region.Where())
						break
					}
				}
			}
		}
		return nil, nil
	}),
}

// started returns what a call gives to another goroutine: all of a go statement,
// and the function that errgroup.Group.Go, sync.WaitGroup.Go and their kind are
// given, or a timer.
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

func position(pass *analysis.Pass, call ssa.CallInstruction) token.Pos {
	if _, isGo := call.(*ssa.Go); isGo {
		return call.Pos()
	}
	return code.Of(pass).Pos(call)
}
