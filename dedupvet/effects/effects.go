// Package effects has the analyzers of effects: the functions that dedup calls with a transaction
// to write through, and the functions of the package that these call.
package effects

import (
	"iter"
	"reflect"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// Analyzers are the analyzers of this package.
var Analyzers = []*analysis.Analyzer{writes, goroutine, outside}

// regions computes the []*region of a package.
var regions = &analysis.Analyzer{
	Name:       "dedupeffects",
	Doc:        "find the code that runs inside effects, for the analyzers of dedupvet",
	Requires:   []*analysis.Analyzer{code.Analyzer},
	ResultType: reflect.TypeFor[[]*region](),
	Run: func(pass *analysis.Pass) (any, error) {
		f := &finder{pkg: pass.Pkg, code: code.Of(pass), regions: make(map[*ssa.Function]*region)}
		for _, fn := range f.code.Funcs {
			f.findEffects(fn)
		}
		f.findHelpers()
		return f.found, nil
	},
}

// inEffects returns the run function of an analyzer that checks the calls in effects.
func inEffects(check func(pass *analysis.Pass, r *region, call ssa.CallInstruction)) func(*analysis.Pass) {
	return func(pass *analysis.Pass) {
		for _, r := range pass.ResultOf[regions].([]*region) {
			for call := range r.calls() {
				check(pass, r, call)
			}
		}
	}
}

// region is a function that runs inside an effect.
type region struct {
	fn *ssa.Function
	// effect is true if dedup calls the function, and false if an effect does.
	effect bool
	// readOnly is true if only tools of class tool.ReadOnly run the function.
	readOnly bool

	// callers has the values and fields that hold the transaction of a sqldedup.DoTx. It is nil for
	// other effects.
	callers map[any]bool

	code    *code.Code
	regions map[*ssa.Function]*region // all regions of the package
}

// where describes the region in a message.
func (r *region) where() string {
	if r.effect || r.fn.Parent() != nil {
		return "in an effect"
	}
	return "in " + r.fn.Name() + ", which an effect calls"
}

// calls returns the calls in the region. It skips function literals that are regions of their own.
func (r *region) calls() iter.Seq[ssa.CallInstruction] {
	return func(yield func(ssa.CallInstruction) bool) { r.within(r.fn, yield) }
}

func (r *region) within(fn *ssa.Function, yield func(ssa.CallInstruction) bool) bool {
	withoutTx := withoutTx(fn)
	for in := range code.Instructions(fn) {
		call, ok := in.(ssa.CallInstruction)
		if !ok || slices.ContainsFunc(withoutTx, func(b *ssa.BasicBlock) bool { return b.Dominates(in.Block()) }) {
			continue
		}
		if !yield(call) {
			return false
		}
	}
	for _, literal := range fn.AnonFuncs {
		if r.regions[literal] == nil && !r.within(literal, yield) {
			return false
		}
	}
	return true
}

// withoutTx returns the blocks that run if there is no transaction, because the handler is not
// behind the middleware or interceptor.
func withoutTx(fn *ssa.Function) (blocks []*ssa.BasicBlock) {
	for _, b := range fn.Blocks {
		branch, ok := b.Instrs[len(b.Instrs)-1].(*ssa.If)
		if !ok {
			continue
		}
		found, ok := branch.Cond.(*ssa.Extract)
		if !ok || found.Index != 1 || len(b.Succs[1].Preds) != 1 {
			continue
		}
		if call, ok := found.Tuple.(*ssa.Call); ok && api.IsDoorTx(code.Callee(&call.Call)) {
			blocks = append(blocks, b.Succs[1])
		}
	}
	return blocks
}

// holds reports whether fn is the region's function or a literal in it.
func (r *region) holds(fn *ssa.Function) bool {
	for fn != nil && fn != r.fn {
		fn = fn.Parent()
	}
	return fn != nil
}

// isReceiver reports whether a parameter is a receiver.
func isReceiver(v *ssa.Parameter) bool {
	fn := v.Parent()
	return fn.Signature.Recv() != nil && v == fn.Params[0]
}
