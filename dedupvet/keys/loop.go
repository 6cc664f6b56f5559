package keys

import (
	"cmp"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// loop is a loop in a function's control flow: all blocks on paths from its header back to it.
type loop struct {
	header *ssa.BasicBlock
	blocks map[*ssa.BasicBlock]bool
}

// loopsAround returns the loops that contain a block, the innermost first.
func loopsAround(b *ssa.BasicBlock) []*loop {
	var loops []*loop
	for _, header := range b.Parent().Blocks {
		l := &loop{header, map[*ssa.BasicBlock]bool{header: true}}
		var add func(*ssa.BasicBlock)
		add = func(b *ssa.BasicBlock) {
			if !l.blocks[b] {
				l.blocks[b] = true
				for _, pred := range b.Preds {
					add(pred)
				}
			}
		}
		isLoop := false
		for _, pred := range header.Preds {
			if header.Dominates(pred) {
				isLoop = true
				add(pred)
			}
		}
		if isLoop && l.blocks[b] {
			loops = append(loops, l)
		}
	}
	slices.SortFunc(loops, func(a, b *loop) int { return cmp.Compare(len(a.blocks), len(b.blocks)) })
	return loops
}

func (l *loop) holds(in ssa.Instruction) bool { return l.blocks[in.Block()] }

// isEndless reports whether a loop has no condition in its header.
func (l *loop) isEndless() bool { return !strings.HasSuffix(l.header.Comment, ".loop") }

// pos returns the first position in the source that belongs to the loop.
func (l *loop) pos() (first token.Pos) {
	for b := range l.blocks {
		for _, in := range b.Instrs {
			if at := in.Pos(); at.IsValid() && (!first.IsValid() || at < first) {
				first = at
			}
		}
	}
	return first
}

// counts reports whether a value is the loop's counter.
func (l *loop) counts(v ssa.Value) bool {
	step, ok := v.(*ssa.BinOp)
	if ok {
		_, byOne := step.Y.(*ssa.Const)
		return byOne && (step.Op == token.ADD || step.Op == token.SUB) && l.holds(step) && l.turns(step.X, step)
	}
	if phi, ok := v.(*ssa.Phi); ok && phi.Block() == l.header {
		return slices.ContainsFunc(phi.Edges, func(edge ssa.Value) bool {
			step, ok := edge.(*ssa.BinOp)
			return ok && step.X == phi && l.counts(step)
		})
	}
	return false
}

// turns reports whether a value is the counter that step advances on each turn.
func (l *loop) turns(v ssa.Value, step *ssa.BinOp) bool {
	phi, ok := v.(*ssa.Phi)
	return ok && phi.Block() == l.header && slices.Contains(phi.Edges, ssa.Value(step))
}

// keeps reports whether a variable gets a value on one turn and keeps it on the later ones.
func (l *loop) keeps(v ssa.Value) bool {
	phi, ok := v.(*ssa.Phi)
	if !ok {
		return true // a captured variable
	}
	return phi.Block() != l.header && slices.ContainsFunc(phi.Edges, func(edge ssa.Value) bool {
		before, ok := edge.(*ssa.Phi)
		return ok && before.Block() == l.header && slices.Contains(before.Edges, ssa.Value(phi))
	})
}

// isOverItems reports whether each turn of a loop handles another item. Counters, pauses and ticks
// are not items, unless they index something.
func (l *loop) isOverItems() bool {
	isPause := func(v ssa.Value) bool { return api.IsNamed(v.Type(), "time", "Duration", "Time") } // or its address
	pauses, indexes := false, false
	for b := range l.blocks {
		for _, in := range b.Instrs {
			switch in := in.(type) {
			case *ssa.IndexAddr:
				if l.mentionsCount(in.Index) {
					pauses, indexes = pauses || isPause(in), indexes || !isPause(in)
				}
			case *ssa.Index:
				indexes = indexes || l.mentionsCount(in.Index)
			case *ssa.Lookup:
				indexes = indexes || l.mentionsCount(in.Index)
			case *ssa.Extract: // an item of a map, a text or a channel
				_, isNext := in.Tuple.(*ssa.Next)
				receive, isReceive := in.Tuple.(*ssa.UnOp)
				isReceive = isReceive && receive.Block() == l.header && in.Index == 0 && !isPause(in)
				if (isNext && l.header == in.Tuple.(*ssa.Next).Block() && in.Index > 0 || isReceive) && len(code.Uses(in)) > 0 {
					return true
				}
			}
		}
	}
	return indexes || !pauses && l.header.Comment == "rangeindex.loop" && l.usesCount()
}

// usesCount reports whether the body of a loop uses its counter.
func (l *loop) usesCount() bool {
	for _, in := range l.header.Instrs {
		if v, ok := in.(ssa.Value); ok && l.counts(v) {
			for _, use := range code.Uses(v) {
				if use.Block() != l.header {
					return true
				}
			}
		}
	}
	return false
}

// isAboutTurn reports whether a call gets the counter of its loop. Such a call may handle another
// item on each turn, for instance one of many seats.
func (l *loop) isAboutTurn(call ssa.CallInstruction) bool {
	return slices.ContainsFunc(call.Common().Args, l.mentionsCount)
}

// mentionsCount reports whether a value is made from the loop's counter.
func (l *loop) mentionsCount(v ssa.Value) bool {
	if l.counts(v) {
		return true
	}
	in, ok := v.(ssa.Instruction)
	if _, isPhi := v.(*ssa.Phi); !ok || isPhi || !l.holds(in) {
		return false
	}
	return slices.ContainsFunc(in.Operands(nil), func(operand *ssa.Value) bool {
		return *operand != nil && l.mentionsCount(*operand)
	})
}
