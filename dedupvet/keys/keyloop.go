package keys

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

var retryLoop = code.NewAnalyzer("keyloop", `report keys that are minted inside a retry loop

A key that is minted for every try makes every try a call of its own: a call whose
answer was lost runs again. The same goes for a key that contains the number of the
try, for an Idempotency-Key header, and for the metadata of that name of a gRPC
request. Make the key before the loop.

A loop is a retry loop if a call in it that fails leads to the next turn and a call
that succeeds never does. The key may be minted in a function of the package that
such a loop calls. A loop over items with a key each is not a retry loop. Nor is a
function literal, unless it is passed to a package whose path contains retry or
backoff.`, func(pass *analysis.Pass) {
	c := &checker{pass: pass, code: code.Of(pass), tracer: &tracer{code.Of(pass)}}
	c.findRepeated()
	for _, sink := range c.tracer.sinks() {
		if sink.what != ofArgs && !c.checkLoops(sink) {
			c.checkCallers(sink)
		}
	}
})

type checker struct {
	pass   *analysis.Pass
	code   *code.Code
	tracer *tracer
	// repeated maps a function of the package to the calls inside loops that run it.
	repeated map[*ssa.Function][]ssa.CallInstruction
}

// checkLoops checks the loops around a key, the innermost first, and reports whether it found
// something.
func (c *checker) checkLoops(sink sink) bool {
	for _, loop := range loopsAround(sink.at.Block()) {
		if !c.isRetry(loop, sink) {
			continue
		}
		for _, found := range c.sources(sink, loop.counts) {
			if loop.holds(found.at) && !slices.ContainsFunc(found.choices, loop.keeps) {
				c.report(sink, found, "")
				return true
			}
		}
	}
	return false
}

// checkCallers checks the loops around the calls of the function that mints a key, and whether that
// function is a literal that a package repeats.
func (c *checker) checkCallers(sink sink) {
	fn := sink.at.Parent()
	for _, found := range c.sources(sink, nil) {
		if found.at.Parent() != fn || len(found.choices) > 0 { // minted elsewhere, or only if there is none yet
			continue
		}
		if c.isHandedToRetry(fn) {
			c.report(sink, found, "")
			return
		}
		for _, call := range c.repeated[fn] {
			for _, loop := range loopsAround(call.Block()) {
				if !loop.isAboutTurn(call) && c.repeats(loop, call, sink.what == header) {
					at := c.pass.Fset.Position(loop.pos())
					c.report(sink, found, fmt.Sprintf(" of the loop at %s:%d", filepath.Base(at.Filename), at.Line))
					return
				}
			}
		}
	}
}

// findRepeated finds the calls inside loops that run functions of the package.
func (c *checker) findRepeated() {
	c.repeated = make(map[*ssa.Function][]ssa.CallInstruction)
	for _, fn := range c.code.Funcs {
		for in := range code.Instructions(fn) {
			if call, ok := in.(*ssa.Call); ok && len(loopsAround(call.Block())) > 0 {
				for _, run := range c.code.Functions(call.Call.Value) {
					c.repeated[run] = append(c.repeated[run], call)
				}
			}
		}
	}
}

// sources returns the traces from a key back to values that differ on every try.
func (c *checker) sources(sink sink, counts func(ssa.Value) bool) []trace {
	traces, _ := c.tracer.from(sink.value, func(v ssa.Value) bool {
		return counts != nil && counts(v) || minted(v) || sink.what == header && unstable(v)
	})
	return traces
}

// report reports a key that differs on every try. where locates the loop if it is in another
// function.
func (c *checker) report(sink sink, found trace, where string) {
	if _, isCall := found.source.(*ssa.Call); isCall {
		c.pass.Reportf(sink.at.Pos(), "%s is minted by %s for every try%s, so that every try is a call of its own and runs; make the key before the first try and send the same one with all",
			sink.what, found.name, where)
		return
	}
	c.pass.Reportf(sink.at.Pos(), "%s has %s in it, which counts the tries, so that every try is a call of its own and runs; leave it out",
		sink.what, found.name)
}

// retries matches the paths of packages that repeat a function until it succeeds.
var retries = regexp.MustCompile(`(?i)(retry|backoff)`)

// isHandedToRetry reports whether a literal is passed to such a package.
func (c *checker) isHandedToRetry(fn *ssa.Function) bool {
	for _, use := range c.code.UsesOf(fn) {
		call, ok := use.(ssa.CallInstruction)
		if !ok {
			continue
		}
		callee := code.Callee(call.Common())
		if callee != nil && callee.Pkg() != nil && callee.Pkg() != c.pass.Pkg && retries.MatchString(callee.Pkg().Path()) {
			return true
		}
	}
	return false
}
