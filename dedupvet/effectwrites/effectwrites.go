// Package effectwrites finds statements of effects that do not go through the
// transaction that the effect is handed.
package effectwrites

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
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
with WithTx. An INSERT that stands behind a call is made
again with every repeat of it.`,
	Requires: []*analysis.Analyzer{effects.Analyzer, code.Analyzer},
	Run: ignore.Run(func(pass *analysis.Pass) (any, error) {
		for _, region := range effects.Of(pass) {
			c := checker{pass: pass, region: region, code: code.Of(pass)}
			for call := range region.Calls() {
				c.check(call)
			}
		}
		for _, fn := range code.Of(pass).Funcs {
			checkAfter(pass, fn)
		}
		return nil, nil
	}),
}

type checker struct {
	pass   *analysis.Pass
	region *effects.Region
	code   *code.Code
}

func (c *checker) check(in ssa.CallInstruction) {
	call := in.Common()
	fn := code.Callee(call)
	if x := code.Receiver(call); x != nil {
		switch {
		case api.IsStatement(fn) && c.bypasses(x):
			c.pass.Reportf(c.code.Pos(in), "%s on a %s %s: this is not part of its transaction and is repeated with each run; use the tx that the effect is handed",
				fn.Name(), api.Short(x.Type()), c.region.Where())
			return
		case api.IsQueries(x.Type()) && api.TakesContext(fn) && c.isOutside(x):
			c.pass.Reportf(c.code.Pos(in), "%s of queries that are not bound to the transaction %s: this is not part of it and is repeated with each run; call it on WithTx(tx)",
				fn.Name(), c.region.Where())
			return
		}
	}
	for i := range code.Args(call) {
		if t := c.handsOver(call, i); t != nil {
			c.pass.Reportf(c.code.Pos(in, i), "a %s is handed to %s %s: what it does there is not part of the transaction and is repeated with each run; hand over the tx that the effect is handed",
				api.Short(t), code.CallName(call), c.region.Where())
		}
	}
}

// bypasses reports whether x, which runs statements, works on something else than
// the transaction of the region. A connection must be got from that.
func (c *checker) bypasses(x ssa.Value) bool {
	if api.IsForeign(x.Type()) {
		return c.isForeign(x)
	}
	return c.isOutside(x) || api.IsConn(x.Type()) && !c.region.Handle(x)
}

// isForeign reports whether x is a database or a transaction of its own.
func (c *checker) isForeign(x ssa.Value) bool {
	if !api.IsForeign(x.Type()) || api.IsPool(x.Type()) {
		return api.IsForeign(x.Type())
	}
	return !c.region.Bound(x)
}

// isOutside reports whether x was there before, and is not of the caller's transaction.
func (c *checker) isOutside(x ssa.Value) bool {
	if !c.region.Outside(x) {
		return false
	}
	return !c.region.Bound(x)
}

// handsOver is the type of the i-th argument if that gives a function that is not
// looked into, or only knows an interface, something to bypass the transaction with.
func (c *checker) handsOver(call *ssa.CallCommon, i int) types.Type {
	if _, isBuiltin := call.Value.(*ssa.Builtin); isBuiltin {
		return nil
	}
	arg, param := code.Args(call)[i], call.Signature().Params().At(i).Type()
	isInterface := types.IsInterface(param)
	arg = unconverted(arg)
	switch t := arg.Type(); {
	case isInterface && param.Underlying().(*types.Interface).Empty():
	case c.isForeign(arg):
		lookedInto := len(c.code.Functions(call.Value)) > 0 && !isInterface
		keeps := api.IsFunc(code.Callee(call), api.Dedup, "New") // which sends nothing
		if !lookedInto && !keeps && !c.handsOverTx(call) {
			return t
		}
	case api.IsTx(t) && c.region.Outside(arg):
		return t
	}
	return nil
}

// handsOverTx reports whether a call gets the effect's transaction too, on which it may put what
// it is given.
func (c *checker) handsOverTx(call *ssa.CallCommon) bool {
	return slices.ContainsFunc(code.Args(call), func(arg ssa.Value) bool {
		arg = unconverted(arg)
		return api.IsForeign(arg.Type()) && !c.isForeign(arg)
	})
}

// unconverted is a value before it was made an interface, or another one.
func unconverted(v ssa.Value) ssa.Value {
	switch converted := v.(type) {
	case *ssa.MakeInterface:
		return converted.X
	case *ssa.ChangeInterface:
		return converted.X
	}
	return v
}
