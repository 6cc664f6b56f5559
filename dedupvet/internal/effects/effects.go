// Package effects finds the code of a package that runs inside effects: the
// functions that are handed to dedup with a transaction to write through, and
// the functions of the package that these call.
package effects

import (
	"go/types"
	"iter"
	"reflect"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// Analyzer makes the []*Region of a package for other analyzers.
var Analyzer = &analysis.Analyzer{
	Name:       "dedupeffects",
	Doc:        "find the code that runs inside effects, for the analyzers of dedupvet",
	Requires:   []*analysis.Analyzer{code.Analyzer},
	ResultType: reflect.TypeFor[[]*Region](),
	Run: func(pass *analysis.Pass) (any, error) {
		f := &finder{pkg: pass.Pkg, code: code.Of(pass), regions: make(map[*ssa.Function]*Region)}
		for _, fn := range f.code.Funcs {
			f.findEffects(fn)
		}
		f.findHelpers()
		return f.found, nil
	},
}

// Of returns the regions for an analyzer that requires Analyzer.
func Of(pass *analysis.Pass) []*Region { return pass.ResultOf[Analyzer].([]*Region) }

// Region is a function that runs inside an effect.
type Region struct {
	Func *ssa.Function
	// Effect says that it is handed to dedup itself. Else an effect calls it.
	Effect bool
	// ReadOnly says that only tools of class tool.ReadOnly run it.
	ReadOnly bool

	// callers is where the transaction comes from that sqldedup.DoTx is given, nil for other
	// effects.
	callers map[any]bool

	code    *code.Code
	effects map[*ssa.Function]*Region // of the package
}

// Where says in a message what code this is.
func (r *Region) Where() string {
	if r.Effect || r.Func.Parent() != nil {
		return "in an effect"
	}
	return "in " + r.Func.Name() + ", which an effect calls"
}

// Instructions are those of the region. A function literal that is an effect
// itself is a region of its own and left out.
func (r *Region) Instructions() iter.Seq[ssa.Instruction] {
	return func(yield func(ssa.Instruction) bool) { r.within(r.Func, yield) }
}

func (r *Region) within(fn *ssa.Function, yield func(ssa.Instruction) bool) bool {
	unguarded := unguarded(fn)
	for in := range code.Instructions(fn) {
		if slices.ContainsFunc(unguarded, func(b *ssa.BasicBlock) bool { return b.Dominates(in.Block()) }) {
			continue
		}
		if !yield(in) {
			return false
		}
	}
	for _, literal := range fn.AnonFuncs {
		if r.effects[literal] == nil && !r.within(literal, yield) {
			return false
		}
	}
	return true
}

// unguarded returns where a handler goes that is not behind the door: there is no transaction.
func unguarded(fn *ssa.Function) (blocks []*ssa.BasicBlock) {
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

// Calls are the calls of the region.
func (r *Region) Calls() iter.Seq[ssa.CallInstruction] {
	return func(yield func(ssa.CallInstruction) bool) {
		for in := range r.Instructions() {
			if call, ok := in.(ssa.CallInstruction); ok && !yield(call) {
				return
			}
		}
	}
}

// holds reports whether a function is the region's or a literal in it.
func (r *Region) holds(fn *ssa.Function) bool {
	for ; fn != nil; fn = fn.Parent() {
		if fn == r.Func {
			return true
		}
	}
	return false
}

// isReceiver reports whether a parameter is a receiver.
func isReceiver(v *ssa.Parameter) bool {
	fn := v.Parent()
	return fn.Signature.Recv() != nil && v == fn.Params[0]
}

func pointed(t types.Type) types.Type {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		return types.Unalias(p.Elem())
	}
	return t
}
