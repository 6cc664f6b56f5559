package keyloop

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/cfg"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/keyflow"
)

// isRetry tells whether a loop around a key repeats one call until it succeeds:
// after a call in it that fails there is another turn, and after one that
// succeeds there is none.
func (c *checker) isRetry(loop ast.Node, sink keyflow.Sink) bool {
	return c.repeats(loop, sink.Stack, c.tries(loop, sink))
}

// repeats tells so of any of some tries.
func (c *checker) repeats(loop ast.Node, stack []ast.Node, tries []try) bool {
	if c.isOverItems(loop) {
		return false
	}
	graph := c.graph(stack)
	if graph == nil {
		return false
	}
	for _, try := range tries {
		after := turn{info: c.info, loop: loop, err: try.err}
		again, ended := after.follow(graph, try.stmt, false), after.follow(graph, try.stmt, true)
		if again.next && (!ended.next || try.http && ended.left) {
			return true
		}
	}
	return false
}

// isOverItems tells whether each turn of a loop is about another thing. Counts,
// pauses and ticks are no things, unless something is indexed by them.
func (c *checker) isOverItems(loop ast.Node) bool {
	r, isRange := loop.(*ast.RangeStmt)
	if isRange && r.Key != nil && !c.isCount(r) {
		return true
	}
	counters, indexed := c.counters(loop), false
	ast.Inspect(loop, func(n ast.Node) bool {
		if index, ok := n.(*ast.IndexExpr); ok && !indexed {
			indexed = api.Mentions(c.info, index.Index, func(v *types.Var) bool { return counters[v] })
		}
		return !indexed
	})
	return indexed
}

func (c *checker) isCount(r *ast.RangeStmt) bool {
	isPause := func(t types.Type) bool { return api.IsNamed(t, "time", "Duration", "Time") }
	switch t := c.info.TypeOf(r.X).Underlying().(type) {
	case *types.Basic:
		return t.Info()&types.IsInteger != 0
	case *types.Slice:
		return isPause(t.Elem())
	case *types.Array:
		return isPause(t.Elem())
	case *types.Chan:
		return isPause(t.Elem())
	case *types.Signature: // an iterator
		call, ok := ast.Unparen(r.X).(*ast.CallExpr)
		return ok && c.isRetryCall(call)
	}
	return false
}

// graph is the control flow of the innermost function of a stack.
func (c *checker) graph(stack []ast.Node) *cfg.CFG {
	for i := len(stack) - 1; i >= 0; i-- {
		switch fn := stack[i].(type) {
		case *ast.FuncLit:
			return cfg.New(fn.Body, c.mayReturn)
		case *ast.FuncDecl:
			return cfg.New(fn.Body, c.mayReturn)
		}
	}
	return nil
}

func (c *checker) mayReturn(call *ast.CallExpr) bool {
	if c.info.Types[call.Fun].IsBuiltin() {
		id, ok := ast.Unparen(call.Fun).(*ast.Ident)
		return !ok || id.Name != "panic"
	}
	fn := api.Callee(c.info, call)
	return !api.IsFunc(fn, "os", "Exit") && !api.IsFunc(fn, "log", "Fatal", "Fatalf", "Fatalln")
}

// try is a statement that makes a call and keeps its error.
type try struct {
	stmt *ast.AssignStmt
	err  *types.Var
	http bool
}

// tries returns those of a loop.
func (c *checker) tries(loop ast.Node, sink keyflow.Sink) []try {
	var found []try
	ast.Inspect(loop, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.AssignStmt:
			if len(n.Rhs) != 1 {
				return true
			}
			call, ok := ast.Unparen(n.Rhs[0]).(*ast.CallExpr)
			if !ok || !api.ReturnsError(c.info, call) {
				return true
			}
			requests := c.requests(call)
			if id, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident); ok && (requests || c.makesCall(call) || slices.Contains(call.Args, sink.Value)) {
				if v, ok := c.info.ObjectOf(id).(*types.Var); ok {
					found = append(found, try{stmt: n, err: v, http: requests})
				}
			}
		}
		return true
	})
	return found
}

// makesCall tells whether a call is given a call of dedup to make, by dedup or by
// somebody in between.
func (c *checker) makesCall(call *ast.CallExpr) bool {
	for _, arg := range call.Args {
		t := c.info.TypeOf(arg)
		if slice, ok := t.Underlying().(*types.Slice); ok {
			t = slice.Elem()
		}
		if api.IsNamed(t, api.Dedup, "Call", "StatementCall") || api.IsNamed(t, api.Tool, "Invocation") {
			return true
		}
	}
	return false
}

func (c *checker) requests(call *ast.CallExpr) bool {
	fn := api.Callee(c.info, call)
	return api.IsMethod(fn, "net/http", "Client", "Do") || api.IsMethod(fn, "net/http", "RoundTripper", "RoundTrip")
}
