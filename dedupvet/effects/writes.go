package effects

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

var writes = code.NewAnalyzer("effectwrites", `report statements of effects that bypass the effect's transaction

What an effect writes through a pool, a connection or another transaction is not
committed together with the record of its answer: it stays when the effect is
rolled back, and is repeated with each run. Write through the pgx.Tx that the
effect gets, a savepoint begun from it, or queries bound to it with WithTx. An
INSERT after a call is repeated with every repeat of the call.`, func(pass *analysis.Pass) {
	inEffects(checkWrites)(pass)
	for _, fn := range code.Of(pass).Funcs {
		checkAfter(pass, fn)
	}
}, regions)

func checkWrites(pass *analysis.Pass, r *region, in ssa.CallInstruction) {
	call := in.Common()
	fn := code.Callee(call)
	if x := code.Receiver(call); x != nil {
		switch {
		case api.IsStatement(fn) && r.bypasses(x):
			pass.Reportf(in.Pos(), "%s on a %s %s: this is not part of its transaction and is repeated with each run; use the tx that the effect is handed",
				fn.Name(), api.Short(x.Type()), r.where())
			return
		case api.IsQueries(x.Type()) && api.TakesContext(fn) && r.isOutside(x):
			pass.Reportf(in.Pos(), "%s of queries that are not bound to the transaction %s: this is not part of it and is repeated with each run; call it on WithTx(tx)",
				fn.Name(), r.where())
			return
		}
	}
	for i := range code.Args(call) {
		if t := r.handsOver(call, i); t != nil {
			pass.Reportf(in.Pos(), "a %s is handed to %s %s: what it does there is not part of the transaction and is repeated with each run; hand over the tx that the effect is handed",
				api.Short(t), code.CallName(call), r.where())
		}
	}
}

// bypasses reports whether x, which runs statements, works on anything but the region's
// transaction. A connection must come from that transaction.
func (r *region) bypasses(x ssa.Value) bool {
	if api.IsForeign(x.Type()) {
		return r.isForeign(x)
	}
	return r.isOutside(x) || api.IsConn(x.Type()) && !r.handle(x)
}

// isForeign reports whether x is a database or another transaction.
func (r *region) isForeign(x ssa.Value) bool {
	return api.IsPool(x.Type()) || api.IsForeign(x.Type()) && !r.bound(x, nil)
}

// isOutside reports whether x existed before the region and is not the caller's transaction.
func (r *region) isOutside(x ssa.Value) bool { return r.predates(x) && !r.bound(x, nil) }

// handsOver returns the type of the ith argument if it lets the called function bypass the
// transaction. The function's code is not analyzed, or its parameter is an interface.
func (r *region) handsOver(call *ssa.CallCommon, i int) types.Type {
	if _, isBuiltin := call.Value.(*ssa.Builtin); isBuiltin {
		return nil
	}
	arg, param := unconverted(code.Args(call)[i]), call.Signature().Params().At(i).Type()
	isInterface := types.IsInterface(param)
	switch t := arg.Type(); {
	case isInterface && param.Underlying().(*types.Interface).Empty():
	case r.isForeign(arg):
		lookedInto := len(r.code.Functions(call.Value)) > 0 && !isInterface
		keeps := api.IsFunc(code.Callee(call), api.Dedup, "New") // dedup.New sends nothing
		if !lookedInto && !keeps && !r.handsOverTx(call) {
			return t
		}
	case api.IsTx(t) && r.predates(arg):
		return t
	}
	return nil
}

// handsOverTx reports whether a call also gets the effect's transaction, on which it may put its
// other arguments.
func (r *region) handsOverTx(call *ssa.CallCommon) bool {
	return slices.ContainsFunc(code.Args(call), func(arg ssa.Value) bool {
		arg = unconverted(arg)
		return api.IsForeign(arg.Type()) && !r.isForeign(arg)
	})
}

// unconverted returns a value before its conversion to an interface.
func unconverted(v ssa.Value) ssa.Value {
	switch converted := v.(type) {
	case *ssa.MakeInterface:
		return converted.X
	case *ssa.ChangeInterface:
		return converted.X
	}
	return v
}
