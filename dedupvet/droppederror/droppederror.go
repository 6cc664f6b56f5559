// Package droppederror finds failures of statements that effects ignore.
package droppederror

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/defs"
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
error, or run a statement that may fail behind a savepoint.`,
	Requires: []*analysis.Analyzer{effects.Analyzer, defs.Analyzer},
	Run: ignore.Run(func(pass *analysis.Pass) (any, error) {
		for _, region := range effects.Of(pass) {
			c := checker{
				pass: pass, info: pass.TypesInfo, region: region,
				defs:    pass.ResultOf[defs.Analyzer].(*defs.Defs),
				handles: region.Handles(),
			}
			region.Walk(func(n ast.Node, stack []ast.Node) {
				c.checkDropped(n)
				c.checkBranch(n, stack)
				c.checkPassed(n, stack)
			})
			c.checkRows()
		}
		return nil, nil
	}),
}

type checker struct {
	pass    *analysis.Pass
	info    *types.Info
	region  *effects.Region
	defs    *defs.Defs
	handles map[*types.Var]bool
}

// checkDropped reports calls whose error nobody gets.
func (c *checker) checkDropped(n ast.Node) {
	switch n := n.(type) {
	case *ast.ExprStmt:
		if call, ok := ast.Unparen(n.X).(*ast.CallExpr); ok {
			c.reportDropped(call)
		}
	case *ast.DeferStmt:
		c.reportDropped(n.Call)
	case *ast.AssignStmt:
		for i, value := range n.Rhs {
			last := i
			if len(n.Rhs) == 1 {
				last = len(n.Lhs) - 1
			}
			call, isCall := ast.Unparen(value).(*ast.CallExpr)
			if id, ok := n.Lhs[last].(*ast.Ident); ok && id.Name == "_" && isCall && !c.rowsTell(n, call) {
				c.reportDropped(call)
			}
		}
	}
}

func (c *checker) reportDropped(call *ast.CallExpr) {
	if c.usesTx(call) && !c.mayDrop(call) {
		c.pass.Reportf(call.Pos(), "the error of %s is dropped %s: after a failed statement nothing of the transaction can be committed; return the error, or use a savepoint",
			name(call), c.region.Where())
	}
}

// usesTx tells whether a call that returns an error works on the transaction: it
// is a method of a handle, or is given one.
func (c *checker) usesTx(call *ast.CallExpr) bool {
	if !api.ReturnsError(c.info, call) {
		return false
	}
	if x := api.Receiver(c.info, call); x != nil && c.isHandle(x) {
		return true
	}
	if id, ok := ast.Unparen(call.Fun).(*ast.Ident); ok { // a local function that captures one
		if v, ok := c.info.Uses[id].(*types.Var); ok && c.handles[v] {
			return true
		}
	}
	for _, arg := range call.Args {
		if c.isHandle(arg) {
			return true
		}
	}
	return false
}

func (c *checker) isHandle(e ast.Expr) bool {
	t := c.info.TypeOf(e)
	return t != nil && api.HoldsHandle(t) && api.Mentions(c.info, e, func(v *types.Var) bool { return c.handles[v] })
}

// mayDrop allows what ends something that has failed or been read: Rollback, and
// Close but for that of a batch that nobody else reads.
func (c *checker) mayDrop(call *ast.CallExpr) bool {
	fn := api.Callee(c.info, call)
	if fn == nil {
		return false
	}
	switch fn.Name() {
	case "Rollback":
		return true
	case "Close":
		_, unread := ast.Unparen(api.Receiver(c.info, call)).(*ast.CallExpr)
		return !unread
	}
	return fn.Pkg() != nil && fn.Pkg().Path() == "fmt"
}

func name(call *ast.CallExpr) string {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return "a call"
}
