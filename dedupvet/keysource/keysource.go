// Package keysource finds keys that are made of times and random values.
package keysource

import (
	"golang.org/x/tools/go/analysis"

	"github.com/tooldedup/dedup/dedupvet/internal/code"
	"github.com/tooldedup/dedup/dedupvet/internal/ignore"
	"github.com/tooldedup/dedup/dedupvet/internal/keyflow"
)

// Analyzer reports them.
var Analyzer = &analysis.Analyzer{
	Name: "keysource",
	Doc: `report keys that are made of the time or of random values

A key names one intent and is the same on every try. One that is made of
time.Now, of a random number or of a UUID drawn on the spot is another with
every try, and every try runs. Derive the key from what is saved, or mint it with
dedup.NewKey and save it before the first try.`,
	Requires: []*analysis.Analyzer{code.Analyzer},
	Run: ignore.Run(func(pass *analysis.Pass) (any, error) {
		tracer := keyflow.NewTracer(code.Of(pass))
		for _, sink := range tracer.Sinks() {
			if sink.What == keyflow.Header {
				continue // one that is drawn before the first try is right
			}
			if traces, _ := tracer.From(sink.Value, keyflow.Unstable); len(traces) > 0 {
				pass.Reportf(sink.Pos, "%s comes from %s, which is another value on every try, so that every try runs; derive it from what is saved, or mint it with dedup.NewKey and save it before the first try",
					sink.What, traces[0].Name)
			}
		}
		return nil, nil
	}),
}
