package droppederror

import (
	"go/ast"
	"go/token"
	"go/types"
)

// checkPassed looks for statements whose error only decides whether something
// more is done: under err == nil, with nothing about it but a success.
func (c *checker) checkPassed(n ast.Node, stack []ast.Node) {
	branch, ok := n.(*ast.IfStmt)
	if !ok || enclosing(stack) != c.region.Node || !c.lastIsError() {
		return
	}
	err := c.succeeded(branch.Cond)
	if err == nil || c.usedAfter(err, branch.Body.Pos()) || !c.onlySucceedsAfter(branch.Body.End()) {
		return
	}
	call := c.giver(err, branch.Body.Pos())
	if call == nil || !c.usesTx(call) || c.behindSavepoint(call) {
		return
	}
	c.pass.Reportf(branch.Cond.Pos(), "the error of %s is passed over %s: after a failed statement nothing of the transaction can be committed; return the error, or use a savepoint",
		name(call), c.region.Where())
}

// succeeded returns the error that a condition finds to be nil.
func (c *checker) succeeded(cond ast.Expr) *types.Var {
	binary, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok {
		return nil
	}
	switch binary.Op {
	case token.LAND:
		if err := c.succeeded(binary.X); err != nil {
			return err
		}
		return c.succeeded(binary.Y)
	case token.EQL:
		if c.info.Types[binary.Y].IsNil() {
			return c.errorVar(binary.X)
		}
	}
	return nil
}

// onlySucceedsAfter tells whether the region's returns after pos, of which there
// is one, all say nil for the error.
func (c *checker) onlySucceedsAfter(pos token.Pos) bool {
	successes, others := 0, 0
	c.region.Walk(func(n ast.Node, stack []ast.Node) {
		ret, ok := n.(*ast.ReturnStmt)
		if !ok || ret.Pos() < pos || enclosing(stack) != c.region.Node {
			return
		}
		if len(ret.Results) > 0 && c.info.Types[ret.Results[len(ret.Results)-1]].IsNil() {
			successes++
		} else {
			others++
		}
	})
	return successes > 0 && others == 0
}
