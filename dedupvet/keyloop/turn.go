package keyloop

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/cfg"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// turn follows one turn of a loop from a call on, given that its error is nil or
// is not.
type turn struct {
	info *types.Info
	loop ast.Node
	err  *types.Var
}

// ways says where that may lead: to the next turn, or out of the loop before its
// end.
type ways struct{ next, left bool }

func (t turn) follow(graph *cfg.CFG, from ast.Node, succeeds bool) ways {
	type place struct {
		block *cfg.Block
		known bool // the error is still that of the call
	}
	var ways ways
	seen := make(map[place]bool)
	var visit func(b *cfg.Block, nodes []ast.Node, known bool)
	visit = func(b *cfg.Block, nodes []ast.Node, known bool) {
		for _, n := range nodes {
			known = known && !t.assigns(n)
		}
		if len(b.Succs) == 0 {
			ways.left = true
		}
		for i, succ := range b.Succs {
			if known && len(b.Succs) == 2 && len(b.Nodes) > 0 {
				if cond, ok := b.Nodes[len(b.Nodes)-1].(ast.Expr); ok && t.truth(cond, succeeds) == never(i) {
					continue
				}
			}
			switch {
			case succ.Stmt == t.loop && (succ.Kind == cfg.KindForBody || succ.Kind == cfg.KindRangeBody):
				ways.next = true
				continue
			case t.isOut(succ):
				atEnd := b.Stmt == t.loop && (b.Kind == cfg.KindForLoop || b.Kind == cfg.KindRangeLoop)
				ways.left = ways.left || !atEnd
				continue
			}
			if at := (place{succ, known}); !seen[at] {
				seen[at] = true
				visit(succ, succ.Nodes, known)
			}
		}
	}
	for _, b := range graph.Blocks {
		for i, n := range b.Nodes {
			if n == from {
				visit(b, b.Nodes[i+1:], true)
			}
		}
	}
	return ways
}

// isOut tells whether a block is behind the loop or around it.
func (t turn) isOut(b *cfg.Block) bool {
	if b.Stmt == t.loop {
		return b.Kind == cfg.KindForDone || b.Kind == cfg.KindRangeDone
	}
	return b.Stmt == nil || !within(b.Stmt, t.loop)
}

// never is the truth of a condition with which its i-th way is not taken.
func never(i int) truth {
	if i == 0 {
		return isFalse
	}
	return isTrue
}

// assigns tells whether a statement gives the error another value.
func (t turn) assigns(n ast.Node) bool {
	assign, ok := n.(*ast.AssignStmt)
	if !ok {
		return false
	}
	for _, left := range assign.Lhs {
		if t.isErr(left) {
			return true
		}
	}
	return false
}

func (t turn) isErr(e ast.Expr) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	return ok && t.info.ObjectOf(id) == t.err
}

type truth int

const (
	unknown truth = iota
	isTrue
	isFalse
)

func truthOf(b bool) truth {
	if b {
		return isTrue
	}
	return isFalse
}

func (t truth) not() truth {
	switch t {
	case isTrue:
		return isFalse
	case isFalse:
		return isTrue
	}
	return unknown
}

// truth says what a condition is, as far as the error decides it.
func (t turn) truth(cond ast.Expr, succeeds bool) truth {
	switch cond := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if cond.Op == token.NOT {
			return t.truth(cond.X, succeeds).not()
		}
	case *ast.BinaryExpr:
		return t.binary(cond, succeeds)
	case *ast.CallExpr: // errors.Is(nil, …), dedup.IsRetryable(nil)
		fn := api.Callee(t.info, cond)
		asks := api.IsFunc(fn, "errors", "Is", "As", "AsType") || api.IsFunc(fn, api.Dedup, "IsRetryable", "IsTransient")
		if succeeds && asks && len(cond.Args) > 0 && t.isErr(cond.Args[0]) {
			return isFalse
		}
	}
	return unknown
}

func (t turn) binary(cond *ast.BinaryExpr, succeeds bool) truth {
	switch cond.Op {
	case token.LAND, token.LOR:
		decisive := truthOf(cond.Op == token.LOR)
		left, right := t.truth(cond.X, succeeds), t.truth(cond.Y, succeeds)
		switch {
		case left == decisive || right == decisive:
			return decisive
		case left == decisive.not() && right == decisive.not():
			return decisive.not()
		}
	case token.EQL, token.NEQ:
		if t.isErr(cond.X) && t.info.Types[cond.Y].IsNil() || t.isErr(cond.Y) && t.info.Types[cond.X].IsNil() {
			return truthOf(succeeds == (cond.Op == token.EQL))
		}
	}
	return unknown
}
