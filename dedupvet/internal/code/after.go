package code

import (
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// Facts are what is known on one way through a function: whether an error is nil,
// or a condition true. A variable that literals capture is known by its address.
type Facts map[ssa.Value]bool

// Follow goes all ways from a call on, given what is known behind it.
type Follow struct {
	// Visit is shown every instruction on the ways, and ends one with false.
	Visit func(in ssa.Instruction, known Facts) bool
	// Edge is shown every step to another block, and ends a way with false; may be nil.
	Edge func(from, to *ssa.BasicBlock) bool
}

// maxPlaces ends the walk through functions with very many ways.
const maxPlaces = 20_000

// From follows the code behind an instruction.
func (f Follow) From(in ssa.Instruction, known Facts) {
	seen := make(map[string]bool)
	var visit func(b *ssa.BasicBlock, instrs []ssa.Instruction, known Facts)
	visit = func(b *ssa.BasicBlock, instrs []ssa.Instruction, known Facts) {
		for _, in := range instrs {
			if !f.Visit(in, known) {
				return
			}
			known.learn(in)
		}
		for i, next := range b.Succs {
			if cond, ok := b.Instrs[len(b.Instrs)-1].(*ssa.If); ok {
				if holds, ok := known.truth(cond.Cond); ok && holds != (i == 0) {
					continue
				}
			}
			if f.Edge != nil && !f.Edge(b, next) {
				continue
			}
			there := known.through(b, next)
			if at := there.at(next); !seen[at] && len(seen) < maxPlaces {
				seen[at] = true
				visit(next, next.Instrs, there)
			}
		}
	}
	b := in.Block()
	visit(b, b.Instrs[slices.Index(b.Instrs, in)+1:], known)
}

// learn adds what is known by going through an instruction: it is only stores and
// loads of captured variables that matter.
func (known Facts) learn(in ssa.Instruction) {
	switch in := in.(type) {
	case *ssa.Store:
		known.set(in.Addr, in.Val)
	case *ssa.UnOp:
		if in.Op == token.MUL {
			known.set(in, in.X)
		}
	}
}

func (known Facts) set(v, to ssa.Value) {
	if holds, ok := known.Of(to); ok {
		known[v] = holds
	} else {
		delete(known, v)
	}
}

// Of says whether an error is nil or a condition true, and whether that is known.
func (known Facts) Of(v ssa.Value) (holds, ok bool) {
	if c, isConst := v.(*ssa.Const); isConst {
		switch {
		case c.Value == nil && api.IsError(c.Type()):
			return true, true
		case c.Value != nil && (c.Value.ExactString() == "true" || c.Value.ExactString() == "false"):
			return c.Value.ExactString() == "true", true
		}
		return false, false
	}
	holds, ok = known[v]
	return holds, ok
}

// through is what is known after a step to another block.
func (known Facts) through(from, to *ssa.BasicBlock) Facts {
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

// at is a place and what is known there.
func (known Facts) at(b *ssa.BasicBlock) string {
	facts := make([]string, 0, len(known))
	for v, holds := range known {
		facts = append(facts, fmt.Sprint(v.Name(), holds))
	}
	slices.Sort(facts)
	return fmt.Sprint(b.Index, strings.Join(facts, " "))
}

// truth says what a condition is, as far as it is known.
func (known Facts) truth(cond ssa.Value) (holds, ok bool) {
	if holds, ok := known.Of(cond); ok {
		return holds, true
	}
	switch cond := cond.(type) {
	case *ssa.UnOp:
		if cond.Op == token.NOT {
			holds, ok = known.truth(cond.X)
			return !holds, ok
		}
	case *ssa.BinOp:
		x, y := cond.X, cond.Y
		if IsNil(x) {
			x, y = y, x
		}
		isNil, isKnown := known.Of(x)
		if isKnown && IsNil(y) && (cond.Op == token.EQL || cond.Op == token.NEQ) {
			return isNil == (cond.Op == token.EQL), true
		}
	case *ssa.Extract: // errors.AsType
		if cond.Index == 1 {
			return known.truth(cond.Tuple)
		}
	case *ssa.Call: // errors.Is(nil, …), dedup.IsRetryable(nil)
		if isNil, isKnown := known.Of(Asked(cond)); isKnown && isNil {
			return false, true
		}
	}
	return false, false
}

// IsNil reports whether a value is nil in the source.
func IsNil(v ssa.Value) bool {
	c, ok := v.(*ssa.Const)
	return ok && c.IsNil()
}

// Asked is the error that a call such as errors.Is looks into, nil for other calls.
func Asked(call *ssa.Call) ssa.Value {
	fn := Callee(&call.Call)
	if api.IsFunc(fn, "errors", "Is", "As", "AsType") || api.IsFunc(fn, api.Dedup, "IsRetryable", "IsTransient") {
		return call.Call.Args[0]
	}
	return nil
}
