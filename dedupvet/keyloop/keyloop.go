// Package keyloop finds keys that are minted anew for every try.
package keyloop

import (
	"go/ast"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/defs"
	"github.com/tooldedup/dedup/dedupvet/internal/ignore"
	"github.com/tooldedup/dedup/dedupvet/internal/keyflow"
)

// Analyzer reports them.
var Analyzer = &analysis.Analyzer{
	Name: "keyloop",
	Doc: `report keys that are minted inside a retry loop

A key that is minted for every try makes a call of its own of every try: one whose
answer was lost is run again. The same goes for a key with the number of the try
in it, and for an Idempotency-Key header. Make the key before the loop.

A loop is a retry loop if a call in it that fails leads to the next turn and one
that succeeds never does. The key may be minted in a function of the package that
such a loop calls. A loop over items, each with a key of its own, is none.
Neither is a function literal, unless it is handed to a package whose path names
retry or backoff.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer, defs.Analyzer},
	Run: ignore.Run(func(pass *analysis.Pass) (any, error) {
		c := &checker{
			pass: pass, info: pass.TypesInfo, tracer: keyflow.NewTracer(pass),
			defs: pass.ResultOf[defs.Analyzer].(*defs.Defs),
		}
		c.repeated = c.findRepeated()
		for _, sink := range append(keyflow.Sinks(pass, c.tracer), headers(pass)...) {
			if !c.check(sink) {
				c.checkCallers(sink)
			}
		}
		return nil, nil
	}),
}

type checker struct {
	pass   *analysis.Pass
	info   *types.Info
	tracer *keyflow.Tracer
	defs   *defs.Defs
	// repeated are the calls inside of loops by the functions of the package that
	// they run.
	repeated map[ast.Node][]site
}

// check looks at the loops around a key, the innermost first, and tells whether it
// has found something.
func (c *checker) check(sink keyflow.Sink) bool {
	sameFunc := true
	for i := len(sink.Stack) - 1; i >= 0; i-- {
		n := sink.Stack[i]
		retry := false
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			retry = sameFunc && c.isRetry(n, sink)
		case *ast.FuncLit:
			sameFunc = false
			retry = i > 0 && c.isRetryCall(sink.Stack[i-1])
		}
		if !retry {
			continue
		}
		if traces := c.minted(sink, n); len(traces) > 0 {
			c.report(sink, traces[0], "")
			return true
		}
	}
	return false
}

// report says that a key is another on every try, and where these are made if
// that is elsewhere.
func (c *checker) report(sink keyflow.Sink, trace keyflow.Trace, where string) {
	if _, isCall := trace.Source.(*ast.CallExpr); isCall {
		c.pass.Reportf(sink.Value.Pos(), "%s is minted by %s for every try%s, so that every try is a call of its own and runs; make the key before the first try and send the same one with all",
			sink.What, trace.Name, where)
		return
	}
	c.pass.Reportf(sink.Value.Pos(), "%s has %s in it, which counts the tries, so that every try is a call of its own and runs; leave it out",
		sink.What, trace.Name)
}

// minted returns the ways that a key took from where it is made anew whenever the
// loop or function literal is run again.
func (c *checker) minted(sink keyflow.Sink, again ast.Node) []keyflow.Trace {
	counters, again := c.counters(again), body(again)
	if !within(sink.Value, again) {
		return nil
	}
	header := sink.What == headerName
	is := func(e ast.Expr, fn *types.Func, v *types.Var) bool {
		return v != nil && counters[v] || keyflow.Minted(fn) || header && keyflow.Unstable(fn)
	}
	var traces []keyflow.Trace
	for _, trace := range c.tracer.From(sink.Value, is) {
		if within(trace.At, again) && !kept(trace, sink, again) {
			traces = append(traces, trace)
		}
	}
	return traces
}

// counters are the variables that count a loop's turns.
func (c *checker) counters(loop ast.Node) map[*types.Var]bool {
	counters := make(map[*types.Var]bool)
	add := func(e ast.Expr) {
		if id, ok := e.(*ast.Ident); ok {
			if v, ok := c.info.ObjectOf(id).(*types.Var); ok {
				counters[v] = true
			}
		}
	}
	switch loop := loop.(type) {
	case *ast.ForStmt:
		if post, ok := loop.Post.(*ast.IncDecStmt); ok {
			add(post.X)
		}
		for _, stmt := range loop.Body.List {
			if inc, ok := stmt.(*ast.IncDecStmt); ok {
				add(inc.X)
			}
		}
	case *ast.RangeStmt:
		add(loop.Key)
	}
	return counters
}

// retries matches the packages that run a function again until it succeeds.
var retries = regexp.MustCompile(`(?i)(retry|backoff)`)

// isRetryCall tells whether a call hands a function to such a package.
func (c *checker) isRetryCall(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn := api.Callee(c.info, call)
	return fn != nil && fn.Pkg() != nil && fn.Pkg() != c.pass.Pkg && retries.MatchString(fn.Pkg().Path())
}
