package keys

import (
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// facts holds the known truths on one path through a function: whether an error is nil, or whether
// a condition is true. A captured variable is known by its address.
type facts map[ssa.Value]bool

// maxPlaces bounds the walk through functions with very many paths.
const maxPlaces = 20_000

// after follows all paths in the loop from a call on, starting with the known facts. again reports
// whether a path reaches the call again. left reports whether a path leaves the loop before its
// condition ends it.
func (l *loop) after(call ssa.CallInstruction, known facts) (again, left bool) {
	seen := make(map[string]bool)
	var visit func(b *ssa.BasicBlock, instrs []ssa.Instruction, known facts)
	visit = func(b *ssa.BasicBlock, instrs []ssa.Instruction, known facts) {
		for _, in := range instrs {
			if in == call {
				again = true
				return
			}
			_, returns := in.(*ssa.Return)
			left = left || returns
			known.learn(in)
		}
		for i, next := range b.Succs {
			if branch, ok := b.Instrs[len(b.Instrs)-1].(*ssa.If); ok {
				if holds, ok := known.truth(branch.Cond); ok && holds != (i == 0) {
					continue
				}
			}
			if !l.blocks[next] {
				left = left || b != l.header || l.isEndless()
				continue
			}
			there := known.through(b, next)
			if at := there.at(next); !seen[at] && len(seen) < maxPlaces {
				seen[at] = true
				visit(next, next.Instrs, there)
			}
		}
	}
	b := call.Block()
	visit(b, b.Instrs[slices.Index(b.Instrs, ssa.Instruction(call))+1:], known)
	return again, left
}

// learn adds the facts from an instruction. Only stores and loads of captured variables add any.
func (known facts) learn(in ssa.Instruction) {
	switch in := in.(type) {
	case *ssa.Store:
		known.set(in.Addr, in.Val)
	case *ssa.UnOp:
		if in.Op == token.MUL {
			known.set(in, in.X)
		}
	}
}

// set records that v has the same value as to.
func (known facts) set(v, to ssa.Value) {
	if holds, ok := known.truth(to); ok {
		known[v] = holds
	} else {
		delete(known, v)
	}
}

// through returns the facts after the step from one block to another.
func (known facts) through(from, to *ssa.BasicBlock) facts {
	there := maps.Clone(known)
	i := slices.Index(to.Preds, from)
	for _, in := range to.Instrs {
		phi, ok := in.(*ssa.Phi)
		if !ok {
			break
		}
		delete(there, phi)
		if holds, ok := known.truth(phi.Edges[i]); ok {
			there[phi] = holds
		}
	}
	return there
}

// at returns a key for a block with its facts.
func (known facts) at(b *ssa.BasicBlock) string {
	all := make([]string, 0, len(known))
	for v, holds := range known {
		all = append(all, fmt.Sprint(v.Name(), holds))
	}
	slices.Sort(all)
	return fmt.Sprint(b.Index, strings.Join(all, " "))
}

// truth returns whether an error is nil or a condition is true. ok is false if that is unknown.
func (known facts) truth(v ssa.Value) (holds, ok bool) {
	if holds, ok := known[v]; ok {
		return holds, true
	}
	switch v := v.(type) {
	case *ssa.Const:
		if v.Value == nil {
			return true, api.IsError(v.Type())
		}
		text := v.Value.ExactString()
		return text == "true", text == "true" || text == "false"
	case *ssa.UnOp:
		if v.Op == token.NOT {
			holds, ok = known.truth(v.X)
			return !holds, ok
		}
	case *ssa.BinOp:
		x, y := v.X, v.Y
		if isNil(x) {
			x, y = y, x
		}
		if holds, ok := known.truth(x); ok && isNil(y) && (v.Op == token.EQL || v.Op == token.NEQ) {
			return holds == (v.Op == token.EQL), true
		}
	case *ssa.Extract: // errors.AsType
		if v.Index == 1 {
			return known.truth(v.Tuple)
		}
	case *ssa.Call: // errors.Is(nil, …), dedup.IsRetryable(nil)
		fn := code.Callee(&v.Call)
		if api.IsFunc(fn, "errors", "Is", "As", "AsType") || api.IsFunc(fn, api.Dedup, "IsRetryable", "IsTransient") {
			isNil, ok := known.truth(v.Call.Args[0])
			return false, ok && isNil
		}
	}
	return false, false
}

// isNil reports whether a value is the constant nil.
func isNil(v ssa.Value) bool {
	c, ok := v.(*ssa.Const)
	return ok && c.IsNil()
}

// errorOf returns the error that a call returns, or nil if the code ignores it.
func errorOf(call ssa.CallInstruction) ssa.Value {
	results := call.Common().Signature().Results()
	last := results.Len() - 1
	if value := call.Value(); last == 0 && value != nil && api.IsError(results.At(0).Type()) && len(code.Uses(value)) > 0 {
		return value
	} else if last > 0 && value != nil && api.IsError(results.At(last).Type()) {
		for _, use := range code.Uses(value) {
			if extract, ok := use.(*ssa.Extract); ok && extract.Index == last && len(code.Uses(extract)) > 0 {
				return extract
			}
		}
	}
	return nil
}
