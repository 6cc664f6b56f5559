package effects

import (
	"go/constant"
	"regexp"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// checkAfter reports INSERTs that run after a call was answered: a replay repeats them. A function
// that reads Replayed or Recovered is skipped.
func checkAfter(pass *analysis.Pass, fn *ssa.Function) {
	var calls []*ssa.Call
	for in := range code.Instructions(fn) {
		if call, ok := in.(*ssa.Call); ok && api.IsFunc(code.Callee(&call.Call), api.Dedup, "Do", "DoStatement") {
			calls = append(calls, call)
		}
		if _, field, _ := code.FieldOf(in); field != nil && (field.Name() == "Replayed" || field.Name() == "Recovered") {
			return
		}
	}
	for in := range code.Instructions(fn) {
		call, ok := in.(*ssa.Call)
		if !ok || !inserts(&call.Call) {
			continue
		}
		if slices.ContainsFunc(calls, func(done *ssa.Call) bool { return isAfter(call, done) }) {
			pass.Reportf(call.Pos(), "an INSERT behind %s is made again with every repeat of the call; make it in the effect", calls[0].Call.StaticCallee().Object().Name())
		}
	}
}

// isAfter reports whether call runs only after done.
func isAfter(call, done *ssa.Call) bool {
	if call.Block() != done.Block() {
		return done.Block().Dominates(call.Block())
	}
	return slices.Index(call.Block().Instrs, ssa.Instruction(done)) < slices.Index(call.Block().Instrs, ssa.Instruction(call))
}

var insert, onConflict = regexp.MustCompile(`(?is)^\s*INSERT\b`), regexp.MustCompile(`(?i)\bON\s+CONFLICT\b`)

// inserts reports whether a call sends an INSERT without ON CONFLICT on a connection outside the
// effect's transaction.
func inserts(call *ssa.CallCommon) bool {
	fn, on := code.Callee(call), code.Receiver(call)
	if fn == nil || on == nil || !api.IsStatement(fn) || !api.IsForeign(on.Type()) {
		return false
	}
	return slices.ContainsFunc(code.Args(call), func(arg ssa.Value) bool {
		text, ok := arg.(*ssa.Const)
		if !ok || text.Value == nil || text.Value.Kind() != constant.String {
			return false
		}
		sql := constant.StringVal(text.Value)
		return insert.MatchString(sql) && !onConflict.MatchString(sql)
	})
}
