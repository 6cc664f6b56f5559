package droppederror

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// branch is what is done under a condition.
type branch struct {
	cond ast.Expr
	body []ast.Stmt
	pos  token.Pos // of the body
	end  token.Pos
}

// checkBranch looks at what is done about the error of a statement:
// `return zero, nil` makes a success of it, and a line in a log makes nothing.
func (c *checker) checkBranch(n ast.Node, stack []ast.Node) {
	branch, ok := branchOf(n, stack)
	if !ok || enclosing(stack) != c.region.Node || !c.lastIsError() {
		return
	}
	err := c.failed(branch.cond)
	if err == nil {
		return
	}
	call := c.giver(err, branch.pos)
	if call == nil || !c.usesTx(call) || c.behindSavepoint(call) {
		return
	}
	for _, ret := range c.successes(branch.body, err) {
		c.pass.Reportf(ret.Pos(), "the error of %s becomes a success %s: after a failed statement nothing of the transaction can be committed; return the error, or use a savepoint",
			name(call), c.region.Where())
	}
	if c.onlyLogs(branch.body) && !c.usedAfter(err, branch.end) {
		c.pass.Reportf(branch.cond.Pos(), "the error of %s is passed over %s: after a failed statement nothing of the transaction can be committed; return the error, or use a savepoint",
			name(call), c.region.Where())
	}
}

// branchOf makes branches of an if without else and of a case of a switch without
// tag.
func branchOf(n ast.Node, stack []ast.Node) (branch, bool) {
	switch n := n.(type) {
	case *ast.IfStmt:
		return branch{n.Cond, n.Body.List, n.Body.Pos(), n.End()}, true
	case *ast.CaseClause:
		parent, ok := stack[len(stack)-3].(*ast.SwitchStmt)
		if ok && parent.Tag == nil && len(n.List) == 1 {
			return branch{n.List[0], n.Body, n.Colon, parent.End()}, true
		}
	}
	return branch{}, false
}

// enclosing is the innermost function of a stack.
func enclosing(stack []ast.Node) ast.Node {
	for i := len(stack) - 1; i >= 0; i-- {
		switch stack[i].(type) {
		case *ast.FuncLit, *ast.FuncDecl:
			return stack[i]
		}
	}
	return nil
}

// failed returns the variable that a condition finds to be the error of a failed
// statement: by err != nil, errors.Is or errors.As. That a query found no row is
// no failure, and neither is what the program found itself.
func (c *checker) failed(cond ast.Expr) *types.Var {
	switch cond := ast.Unparen(cond).(type) {
	case *ast.BinaryExpr:
		switch cond.Op {
		case token.LAND:
			left, right := c.failed(cond.X), c.failed(cond.Y)
			if c.findsAnswer(cond.X) || c.findsAnswer(cond.Y) {
				return nil
			}
			if left != nil {
				return left
			}
			return right
		case token.NEQ:
			if c.info.Types[cond.Y].IsNil() {
				return c.errorVar(cond.X)
			}
		}
	case *ast.CallExpr:
		if c.asks(cond) && !c.findsAnswer(cond) {
			return c.errorVar(cond.Args[0])
		}
	}
	return nil
}

func (c *checker) errorVar(e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, ok := c.info.ObjectOf(id).(*types.Var)
	if !ok || !api.IsError(v.Type()) {
		return nil
	}
	return v
}

// giver returns the call whose error v is at pos: the last one before.
func (c *checker) giver(v *types.Var, pos token.Pos) *ast.CallExpr {
	var last *ast.CallExpr
	for _, def := range c.defs.Of(v) {
		if def.Node.Pos() < pos {
			last, _ = ast.Unparen(def.Value).(*ast.CallExpr)
		}
	}
	return last
}

// successes returns the returns of a body that say nil for the error. What stands
// behind another look at err is left to that.
func (c *checker) successes(body []ast.Stmt, err *types.Var) []*ast.ReturnStmt {
	var found []*ast.ReturnStmt
	for _, stmt := range body {
		ast.Inspect(stmt, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit, *ast.SwitchStmt:
				return false
			case *ast.IfStmt:
				return !api.Mentions(c.info, n.Cond, func(v *types.Var) bool { return v == err })
			case *ast.ReturnStmt:
				if len(n.Results) > 0 && c.info.Types[n.Results[len(n.Results)-1]].IsNil() {
					found = append(found, n)
				}
			}
			return true
		})
	}
	return found
}

// logs matches the names of functions that write a line.
var logs = regexp.MustCompile(`^(Print|Fprint|Error|Warn|Info|Debug|Log)`)

// onlyLogs tells whether a body is nothing, or nothing but lines for a log.
func (c *checker) onlyLogs(body []ast.Stmt) bool {
	for _, stmt := range body {
		expr, ok := stmt.(*ast.ExprStmt)
		if !ok {
			return false
		}
		call, ok := expr.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		fn := api.Callee(c.info, call)
		if fn == nil || !logs.MatchString(fn.Name()) || fn.Pkg() != nil && fn.Pkg().Path() == "testing" {
			return false
		}
	}
	return true
}

// usedAfter tells whether an error is used after pos, as in a return at the end.
func (c *checker) usedAfter(err *types.Var, pos token.Pos) bool {
	named := slices.Contains(c.region.Results(), err)
	used := false
	c.region.Walk(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.Ident:
			used = used || n.Pos() >= pos && c.info.Uses[n] == err
		case *ast.ReturnStmt:
			used = used || n.Pos() >= pos && named && len(n.Results) == 0
		}
	})
	return used
}

// lastIsError tells whether the region's last result is an error.
func (c *checker) lastIsError() bool {
	results := c.region.Type.Results
	if results == nil || len(results.List) == 0 {
		return false
	}
	return api.IsError(c.info.TypeOf(results.List[len(results.List)-1].Type))
}
