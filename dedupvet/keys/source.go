// Package keys has the analyzers of the keys of calls: the values that they are made from.
package keys

import (
	"golang.org/x/tools/go/analysis"

	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// Analyzers are the analyzers of this package.
var Analyzers = []*analysis.Analyzer{source, retryLoop}

var source = code.NewAnalyzer("keysource", `report keys and arguments that are made of the time or of random values

A key names one intent and is the same on every try. A key that is made from
time.Now, a random number or a new UUID differs on every try, so every try runs.
Derive the key from saved data, or mint it with dedup.NewKey and save it before
the first try. Arguments must be the same on every try too.`, func(pass *analysis.Pass) {
	tracer := &tracer{code.Of(pass)}
	for _, sink := range tracer.sinks() {
		if sink.what == header { // a value that is drawn before the first try is right
			continue
		}
		traces, _ := tracer.from(sink.value, unstable)
		switch {
		case len(traces) == 0:
		case sink.what == ofArgs:
			pass.Reportf(sink.at.Pos(), "%s hold what comes from %s, which is another value on every try, so that a retry is refused with ErrKeyReused; take it from what is saved, or make it in the effect",
				sink.what, traces[0].name)
		default:
			pass.Reportf(sink.at.Pos(), "%s comes from %s, which is another value on every try, so that every try runs; derive it from what is saved, or mint it with dedup.NewKey and save it before the first try",
				sink.what, traces[0].name)
		}
	}
})
