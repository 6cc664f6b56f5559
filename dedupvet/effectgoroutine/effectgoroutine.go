// Package effectgoroutine finds goroutines that work on an effect's transaction.
package effectgoroutine

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/effects"
	"github.com/tooldedup/dedup/dedupvet/internal/ignore"
)

// Analyzer reports them.
var Analyzer = &analysis.Analyzer{
	Name: "effectgoroutine",
	Doc: `report goroutines of effects that use the effect's transaction

A transaction is one connection, which does one thing at a time: two goroutines
find it busy, or mix their statements up. And a goroutine that outlives the
effect uses a connection that serves somebody else by then.`,
	Requires: []*analysis.Analyzer{effects.Analyzer},
	Run: ignore.Run(func(pass *analysis.Pass) (any, error) {
		for _, region := range effects.Of(pass) {
			check(pass, region)
		}
		return nil, nil
	}),
}

func check(pass *analysis.Pass, region *effects.Region) {
	handles := region.Handles()
	region.Walk(func(n ast.Node, stack []ast.Node) {
		var started ast.Node
		switch n := n.(type) {
		case *ast.GoStmt:
			started = n.Call
		case *ast.CallExpr:
			if len(stack) > 1 && isGo(stack[len(stack)-2]) {
				return // reported there
			}
			started = startedBy(pass.TypesInfo, n)
		}
		if started == nil {
			return
		}
		used := used(pass.TypesInfo, started, handles)
		if used == nil {
			return
		}
		pass.Reportf(n.Pos(), "a goroutine uses %s %s: a transaction is one connection, which does one thing at a time and ends with the effect; use it on the effect's own goroutine",
			used.Name(), region.Where())
	})
}

func isGo(n ast.Node) bool {
	_, ok := n.(*ast.GoStmt)
	return ok
}

// startedBy returns what a call runs on another goroutine: the function that it
// gives to errgroup.Group.Go, sync.WaitGroup.Go and their kind, or to a timer.
func startedBy(info *types.Info, call *ast.CallExpr) ast.Node {
	fn := api.Callee(info, call)
	switch {
	case fn == nil:
		return nil
	case api.IsFunc(fn, "time", "AfterFunc") && len(call.Args) == 2,
		api.IsFunc(fn, "context", "AfterFunc") && len(call.Args) == 2:
		return call.Args[1]
	case api.Receiver(info, call) != nil && (fn.Name() == "Go" || fn.Name() == "TryGo") && len(call.Args) == 1:
		if _, ok := info.TypeOf(call.Args[0]).Underlying().(*types.Signature); ok {
			return call.Args[0]
		}
	}
	return nil
}

// used returns the first handle that a goroutine uses and does not make itself.
func used(info *types.Info, started ast.Node, handles map[*types.Var]bool) *types.Var {
	var first *types.Var
	api.Mentions(info, started, func(v *types.Var) bool {
		own := started.Pos() <= v.Pos() && v.Pos() < started.End()
		if first == nil && handles[v] && !own {
			first = v
		}
		return first != nil
	})
	return first
}
