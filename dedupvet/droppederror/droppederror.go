// Package droppederror finds failures of statements that effects ignore.
package droppederror

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
	Name: "droppederror",
	Doc: `report effects that ignore the error of a statement

A statement that fails ends the transaction for all that comes after it. An
effect that goes on and returns no error claims a success that cannot be
committed: the call fails with dedup.ErrInvalid, and the reason is lost. Return the
error, or run a statement that may fail behind a savepoint.

Reported are also calls of package external whose error nobody gets: it says that a
call was refused, or that it may have happened and is parked.`,
	Requires: []*analysis.Analyzer{effects.Analyzer, code.Analyzer},
	Run: ignore.Run(func(pass *analysis.Pass) (any, error) {
		found := make(map[ssa.CallInstruction]bool)
		for _, region := range effects.Of(pass) {
			c := checker{pass: pass, region: region, code: code.Of(pass), found: found}
			for call := range region.Calls() {
				c.check(call)
			}
		}
		checkCalls(pass, found)
		return nil, nil
	}),
}

type checker struct {
	pass   *analysis.Pass
	region *effects.Region
	code   *code.Code
	found  map[ssa.CallInstruction]bool // calls that were reported
}

func (c *checker) check(in ssa.CallInstruction) {
	if _, isGo := in.(*ssa.Go); isGo {
		return
	}
	call := in.Common()
	err, returnsError := code.Error(in)
	if !returnsError || !c.usesTx(call) {
		return
	}
	switch {
	case err != nil:
		if in.Parent() == c.region.Func && !c.behindSavepoint(call) {
			if !c.region.Handler { // which may answer that it has failed
				c.checkKept(in, err)
			}
		}
	case !mayDrop(call) && !asked(rowsOf(in)):
		c.report(in, c.code.Pos(in), "is dropped")
		return
	}
	c.checkRows(in)
}

func (c *checker) report(in ssa.CallInstruction, pos token.Pos, what string) {
	c.found[in] = true
	c.pass.Reportf(pos, "the error of %s %s %s: after a failed statement nothing of the transaction can be committed; return the error, or use a savepoint",
		code.CallName(in.Common()), what, c.region.Where())
}

// usesTx reports whether a call works on the transaction: it is a method of a handle,
// is given one, or runs a literal that captures one.
func (c *checker) usesTx(call *ssa.CallCommon) bool {
	for _, v := range append([]ssa.Value{call.Value}, call.Args...) {
		_, isFunction := v.(*ssa.MakeClosure)
		if (v == call.Value || !isFunction) && c.region.Handle(v) {
			return true
		}
	}
	return false
}

// mayDrop allows what ends something that has failed or been read: Rollback, and
// Close but for that of a batch that nobody else reads.
func mayDrop(call *ssa.CallCommon) bool {
	fn, x := code.Callee(call), code.Receiver(call)
	if fn == nil || x == nil {
		return false
	}
	unread := api.IsNamed(x.Type(), api.PGX, "BatchResults") && len(code.Uses(x)) == 1
	return fn.Name() == "Rollback" || fn.Name() == "Close" && !unread
}
