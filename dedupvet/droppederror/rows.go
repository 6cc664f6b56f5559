package droppederror

import (
	"go/ast"
	"go/types"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// checkRows reports rows that are read to their end, which may be an error,
// without asking.
func (c *checker) checkRows() {
	var read []*types.Var
	asked := make(map[*types.Var]bool)
	c.region.Walk(func(n ast.Node, stack []ast.Node) {
		id, ok := n.(*ast.Ident)
		if !ok {
			return
		}
		v, ok := c.info.Uses[id].(*types.Var)
		if !ok || !c.handles[v] || !api.IsNamed(v.Type(), api.PGX, "Rows") {
			return
		}
		switch parent := stack[len(stack)-2].(type) {
		case *ast.SelectorExpr:
			if parent.Sel.Name == "Next" {
				read = append(read, v)
			}
			asked[v] = asked[v] || parent.Sel.Name == "Err"
		case *ast.AssignStmt: // they are given, or given away
			asked[v] = asked[v] || !isLeft(parent, id)
		default: // somebody else has them
			asked[v] = true
		}
	})
	for _, v := range read {
		query := c.query(v)
		if query == nil || asked[v] {
			continue
		}
		asked[v] = true // once is enough
		c.pass.Reportf(query.Pos(), "%s.Err is never asked for %s: a query that fails on its way looks like one that has ended; check it after the loop, or use pgx.CollectRows",
			v.Name(), c.region.Where())
	}
}

// query is the call that rows come from, nil for a parameter.
func (c *checker) query(rows *types.Var) *ast.CallExpr {
	for _, def := range c.defs.Of(rows) {
		if call, ok := ast.Unparen(def.Value).(*ast.CallExpr); ok {
			return call
		}
	}
	return nil
}

func isLeft(assign *ast.AssignStmt, id *ast.Ident) bool {
	for _, left := range assign.Lhs {
		if left == id {
			return true
		}
	}
	return false
}

// rowsTell tells whether the error of a query that an assignment drops is got
// from its rows all the same: by Err, or by a function of pgx that reads them.
func (c *checker) rowsTell(assign *ast.AssignStmt, call *ast.CallExpr) bool {
	fn := api.Callee(c.info, call)
	id, ok := assign.Lhs[0].(*ast.Ident)
	if !ok || len(assign.Lhs) != 2 || fn == nil || fn.Name() != "Query" || !api.IsStatement(fn) {
		return false
	}
	rows, ok := c.info.ObjectOf(id).(*types.Var)
	if !ok || !api.IsNamed(rows.Type(), api.PGX, "Rows") {
		return false
	}
	end := c.region.Node.End()
	for _, def := range c.defs.Of(rows) { // until they are those of another query
		if def.Node.Pos() > assign.Pos() {
			end = min(end, def.Node.Pos())
		}
	}
	tell := false
	c.region.Walk(func(n ast.Node, stack []ast.Node) {
		id, ok := n.(*ast.Ident)
		if !ok || c.info.Uses[id] != rows || id.Pos() < assign.End() || id.Pos() >= end {
			return
		}
		switch parent := stack[len(stack)-2].(type) {
		case *ast.SelectorExpr:
			tell = tell || parent.Sel.Name == "Err"
		case *ast.CallExpr:
			reader := api.Callee(c.info, parent)
			tell = tell || reader != nil && api.InPGX(reader.Pkg()) && api.ReturnsError(c.info, parent)
		}
	})
	return tell
}
