package keyloop

import (
	"fmt"
	"go/ast"
	"go/types"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/keyflow"
)

// site is a call whose error an assignment keeps, in one or more loops.
type site struct {
	call  *ast.CallExpr
	stack []ast.Node // the outermost first
	try   try
}

// findRepeated returns the calls inside of loops that run functions of the package.
func (c *checker) findRepeated() map[ast.Node][]site {
	repeated := make(map[ast.Node][]site)
	in := c.pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	in.WithStack([]ast.Node{(*ast.AssignStmt)(nil)}, func(n ast.Node, push bool, stack []ast.Node) bool {
		assign := n.(*ast.AssignStmt)
		if !push || len(assign.Rhs) != 1 || len(loops(stack)) == 0 {
			return true
		}
		call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
		if !ok || !api.ReturnsError(c.info, call) {
			return true
		}
		id, ok := assign.Lhs[len(assign.Lhs)-1].(*ast.Ident)
		if !ok {
			return true
		}
		if err, ok := c.info.ObjectOf(id).(*types.Var); ok {
			for _, fn := range c.runs(call) {
				repeated[fn] = append(repeated[fn], site{call, slices.Clone(stack), try{stmt: assign, err: err}})
			}
		}
		return true
	})
	return repeated
}

// loops are those around the last node of a stack in the same function, the
// innermost first.
func loops(stack []ast.Node) []ast.Node {
	var found []ast.Node
	for i := len(stack) - 1; i >= 0; i-- {
		switch stack[i].(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			found = append(found, stack[i])
		case *ast.FuncLit, *ast.FuncDecl:
			return found
		}
	}
	return found
}

// runs returns what a call runs of this package: a function or method, a literal
// in a local variable, or what a parameter is given.
func (c *checker) runs(call *ast.CallExpr) []ast.Node {
	if decl := c.defs.Func(api.Callee(c.info, call)); decl != nil {
		return []ast.Node{decl}
	}
	id, ok := ast.Unparen(call.Fun).(*ast.Ident)
	if !ok {
		return nil
	}
	v, ok := c.info.Uses[id].(*types.Var)
	if !ok {
		return nil
	}
	var fns []ast.Node
	add := func(e ast.Expr) {
		if lit, ok := ast.Unparen(e).(*ast.FuncLit); ok {
			fns = append(fns, lit)
		}
	}
	for _, def := range c.defs.Of(v) {
		add(def.Value)
	}
	if param, ok := c.defs.Param(v); ok {
		for _, given := range c.defs.Calls(param.Func) {
			if param.Index < len(given.Args) {
				add(given.Args[param.Index])
			}
		}
	}
	return fns
}

// checkCallers looks at the loops around the calls of the function that a key is
// minted in.
func (c *checker) checkCallers(sink keyflow.Sink) {
	fn := function(sink.Stack)
	if fn == nil || len(c.repeated[fn]) == 0 {
		return
	}
	traces := slices.DeleteFunc(c.minted(sink, fn), func(trace keyflow.Trace) bool {
		return slices.ContainsFunc(trace.Via, func(step keyflow.Step) bool { // only where there is none yet
			return within(step.Node, body(fn)) && conditional(step.Node, sink.Value, body(fn))
		})
	})
	if len(traces) == 0 {
		return
	}
	for _, site := range c.repeated[fn] {
		site.try.http = sink.What == headerName
		for _, loop := range loops(site.stack) {
			if !c.isAboutTurn(site.call, loop) && c.repeats(loop, site.stack, []try{site.try}) {
				at := c.pass.Fset.Position(loop.Pos())
				c.report(sink, traces[0], fmt.Sprintf(" of the loop at %s:%d", filepath.Base(at.Filename), at.Line))
				return
			}
		}
	}
}

// isAboutTurn tells whether a call is given the counter of its loop: then it may
// be about another thing on each turn, as one of many seats.
func (c *checker) isAboutTurn(call *ast.CallExpr, loop ast.Node) bool {
	counters := c.counters(loop)
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		return api.Mentions(c.info, arg, func(v *types.Var) bool { return counters[v] })
	})
}

// function is the innermost one of a stack.
func function(stack []ast.Node) ast.Node {
	for i := len(stack) - 1; i >= 0; i-- {
		switch stack[i].(type) {
		case *ast.FuncLit, *ast.FuncDecl:
			return stack[i]
		}
	}
	return nil
}
