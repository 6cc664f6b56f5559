// Package effectwrites finds statements of effects that do not go through the
// transaction that the effect is handed.
package effectwrites

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
	Name: "effectwrites",
	Doc: `report statements of effects that bypass the effect's transaction

What an effect writes through a pool, a connection or another transaction is not
committed together with the record of its answer: it stays when the effect is
rolled back, and is repeated with each run. So everything goes through the pgx.Tx
that the effect is handed, a savepoint begun from it, or queries bound to it
with WithTx.`,
	Requires: []*analysis.Analyzer{effects.Analyzer, defs.Analyzer},
	Run: ignore.Run(func(pass *analysis.Pass) (any, error) {
		for _, region := range effects.Of(pass) {
			c := checker{pass: pass, info: pass.TypesInfo, region: region, defs: pass.ResultOf[defs.Analyzer].(*defs.Defs)}
			region.Walk(func(n ast.Node, _ []ast.Node) {
				if call, ok := n.(*ast.CallExpr); ok {
					c.check(call)
				}
			})
		}
		return nil, nil
	}),
}

type checker struct {
	pass   *analysis.Pass
	info   *types.Info
	region *effects.Region
	defs   *defs.Defs
}

func (c *checker) check(call *ast.CallExpr) {
	fn := api.Callee(c.info, call)
	if x := api.Receiver(c.info, call); x != nil && fn != nil {
		t := c.info.TypeOf(x)
		switch {
		case api.IsStatement(fn) && c.bypasses(x):
			c.pass.Reportf(call.Pos(), "%s on a %s %s: this is not part of its transaction and is repeated with each run; use the tx that the effect is handed",
				fn.Name(), api.Short(t), c.region.Where())
			return
		case api.IsQueries(t) && takesContext(fn) && c.region.Outside(x):
			c.pass.Reportf(call.Pos(), "%s of queries that are not bound to the transaction %s: this is not part of it and is repeated with each run; call it on WithTx(tx)",
				fn.Name(), c.region.Where())
			return
		}
	}
	for i, arg := range call.Args {
		if c.handsOver(fn, call, i) {
			c.pass.Reportf(arg.Pos(), "a %s is handed to %s %s: what it does there is not part of the transaction and is repeated with each run; hand over the tx that the effect is handed",
				api.Short(c.info.TypeOf(arg)), name(call), c.region.Where())
		}
	}
}

// bypasses tells whether x, which runs statements, works on something else than
// the transaction of the region.
func (c *checker) bypasses(x ast.Expr) bool {
	switch t := c.info.TypeOf(x); {
	case api.IsForeign(t):
		return true
	case api.IsConn(t):
		return c.region.Outside(x) || c.connects(x, make(map[*types.Var]bool))
	default:
		return c.region.Outside(x)
	}
}

// connects tells whether a connection that the region declares is one of its
// own making, and not that of a transaction.
func (c *checker) connects(x ast.Expr, seen map[*types.Var]bool) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		v, ok := c.info.ObjectOf(x).(*types.Var)
		if !ok || seen[v] {
			return false
		}
		seen[v] = true
		for _, def := range c.defs.Of(v) {
			if c.connects(def.Value, seen) {
				return true
			}
		}
	case *ast.CallExpr:
		recv := api.Receiver(c.info, x)
		switch {
		case recv == nil:
			return true // pgx.Connect
		case api.IsConn(c.info.TypeOf(recv)):
			return c.connects(recv, seen) // its PgConn
		default:
			return !api.IsTx(c.info.TypeOf(recv))
		}
	}
	return false
}

// handsOver tells whether the i-th argument gives a function that is not looked
// into, or only knows an interface, something to bypass the transaction with.
func (c *checker) handsOver(fn *types.Func, call *ast.CallExpr, i int) bool {
	t, param := c.info.TypeOf(call.Args[i]), api.Param(c.info, call, i)
	if param == nil || isAny(param) {
		return false
	}
	switch {
	case api.IsForeign(t):
		lookedInto := c.defs.Func(fn) != nil && !types.IsInterface(param)
		keeps := api.IsFunc(fn, api.Dedup, "New") // which sends nothing
		return !lookedInto && !keeps
	case api.IsTx(t):
		return c.region.Outside(call.Args[i])
	}
	return false
}

func takesContext(fn *types.Func) bool {
	params := fn.Signature().Params()
	return params.Len() > 0 && api.IsNamed(params.At(0).Type(), "context", "Context")
}

func isAny(t types.Type) bool {
	i, ok := t.Underlying().(*types.Interface)
	return ok && i.Empty()
}

func name(call *ast.CallExpr) string {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return "a function"
}
