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

A key that is minted for every try makes a call of its own of every try: one whose
answer was lost is run again. The same goes for a key with the number of the try
in it, and for an Idempotency-Key header. Make the key before the loop.

A loop is a retry loop if a call in it that fails leads to the next turn and one
that succeeds never does. The key may be minted in a function of the package that
such a loop calls. A loop over items, each with a key of its own, is none.
Neither is a function literal, unless it is handed to a package whose path names
retry or backoff.`, func(pass *analysis.Pass) {
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
	// repeated are the calls inside of loops by the functions of the package that
	// they run.
	repeated map[*ssa.Function][]ssa.CallInstruction
}

// checkLoops looks at the loops around a key, the innermost first, and reports whether
// it has found something.
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

// checkCallers looks at the loops around the calls of the function that a key is
// minted in, and whether it is a literal that a package repeats.
func (c *checker) checkCallers(sink sink) {
	fn := sink.at.Parent()
	for _, found := range c.sources(sink, nil) {
		if found.at.Parent() != fn || len(found.choices) > 0 { // minted elsewhere, or only where there is none yet
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

// findRepeated finds the calls inside of loops that run functions of the package.
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

// sources returns the ways that a key took from where it is made anew.
func (c *checker) sources(sink sink, counts func(ssa.Value) bool) []trace {
	traces, _ := c.tracer.from(sink.value, func(v ssa.Value) bool {
		return counts != nil && counts(v) || minted(v) || sink.what == header && unstable(v)
	})
	return traces
}

// report says that a key is another on every try, and where these are made if
// that is elsewhere.
func (c *checker) report(sink sink, found trace, where string) {
	if _, isCall := found.source.(*ssa.Call); isCall {
		c.pass.Reportf(sink.at.Pos(), "%s is minted by %s for every try%s, so that every try is a call of its own and runs; make the key before the first try and send the same one with all",
			sink.what, found.name, where)
		return
	}
	c.pass.Reportf(sink.at.Pos(), "%s has %s in it, which counts the tries, so that every try is a call of its own and runs; leave it out",
		sink.what, found.name)
}

// retries matches the packages that run a function again until it succeeds.
var retries = regexp.MustCompile(`(?i)(retry|backoff)`)

// isHandedToRetry reports whether a literal is handed to such a package.
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
