package droppederror

import (
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// checkCalls reports calls of package external whose error nobody gets, but for those that
// are known already.
func checkCalls(pass *analysis.Pass, known map[ssa.CallInstruction]bool) {
	for _, fn := range code.Of(pass).Funcs {
		for in := range code.Instructions(fn) {
			call, ok := in.(ssa.CallInstruction)
			if !ok || known[call] || !isAnswered(code.Callee(call.Common())) {
				continue
			}
			if err, _ := code.Error(call); err == nil {
				pass.Reportf(code.Of(pass).Pos(call), "the error of %s is dropped: it says that the call was refused, is parked until somebody has looked, or was not made; handle it",
					code.CallName(call.Common()))
			}
		}
	}
}

// isAnswered reports whether the error of a function is an answer of package external.
func isAnswered(fn *types.Func) bool {
	return api.IsMethod(fn, api.External, "Handle", "Do", "Accept") ||
		api.IsMethod(fn, api.External, "Tools", "Do", "Resolve") ||
		api.IsFunc(fn, api.External, "Saga")
}
