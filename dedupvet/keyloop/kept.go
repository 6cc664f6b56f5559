package keyloop

import (
	"go/ast"
	"go/token"

	"github.com/tooldedup/dedup/dedupvet/internal/keyflow"
)

// kept tells whether a key is minted on one turn and kept for the others: by an
// assignment under a condition, to a variable from before the loop.
func kept(trace keyflow.Trace, sink keyflow.Sink, loop ast.Node) bool {
	for _, step := range trace.Via {
		if within(step.Node, loop) && !withinPos(step.Var.Pos(), loop) && conditional(step.Node, sink.Value, loop) {
			return true
		}
	}
	return false
}

// conditional tells whether n is run under a condition that other is not.
func conditional(n, other, loop ast.Node) bool {
	found := false
	ast.Inspect(loop, func(branch ast.Node) bool {
		cond, ok := branch.(*ast.IfStmt)
		if !ok || found {
			return !found
		}
		found = within(n, cond.Body) && !within(other, cond.Body) ||
			cond.Else != nil && within(n, cond.Else) && !within(other, cond.Else)
		return !found
	})
	return found
}

// body is what a loop or function literal runs again.
func body(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.ForStmt:
		return n.Body
	case *ast.RangeStmt:
		return n.Body
	case *ast.FuncLit:
		return n.Body
	case *ast.FuncDecl:
		return n.Body
	}
	return n
}

func within(n, outer ast.Node) bool { return withinPos(n.Pos(), outer) }

func withinPos(pos token.Pos, outer ast.Node) bool { return outer.Pos() <= pos && pos < outer.End() }
