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
