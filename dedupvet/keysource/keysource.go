// Package keysource finds keys that are made of times and random values.
package keysource

import (
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/attempts"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
	"github.com/tooldedup/dedup/dedupvet/internal/ignore"
	"github.com/tooldedup/dedup/dedupvet/internal/keyflow"
)

// Analyzer reports them.
var Analyzer = &analysis.Analyzer{
	Name: "keysource",
	Doc: `report keys and arguments that are made of the time or of random values

A key names one intent and is the same on every try. One that is made of
time.Now, of a random number or of a UUID drawn on the spot is another with
every try, and every try runs. Derive the key from what is saved, or mint it with
dedup.NewKey and save it before the first try. Arguments are compared with those of
the first try.

In the Perform of an external.Tool an Idempotency-Key header counts too: it is sent
with every attempt of the call, whose own key is in the external.Attempt.`,
	Requires: []*analysis.Analyzer{code.Analyzer},
	Run: ignore.Run(func(pass *analysis.Pass) (any, error) {
		tracer, attempted := keyflow.NewTracer(code.Of(pass)), attempts.Of(code.Of(pass))
		for _, sink := range tracer.Sinks() {
			if sink.What == keyflow.Header { // one that is drawn before the first try is right
				if attempted[sink.At.Parent()] {
					checkHeader(pass, tracer, sink)
				}
				continue
			}
			traces, _ := tracer.From(sink.Value, keyflow.Unstable)
			switch {
			case len(traces) == 0:
			case sink.What == keyflow.Args:
				pass.Reportf(sink.Pos, "%s hold what comes from %s, which is another value on every try, so that a retry is refused with ErrKeyReused; take it from what is saved, or make it in the effect",
					sink.What, traces[0].Name)
			default:
				pass.Reportf(sink.Pos, "%s comes from %s, which is another value on every try, so that every try runs; derive it from what is saved, or mint it with dedup.NewKey and save it before the first try",
					sink.What, traces[0].Name)
			}
		}
		return nil, nil
	}),
}

// checkHeader looks at the key that an attempt sends to its provider.
func checkHeader(pass *analysis.Pass, tracer *keyflow.Tracer, sink keyflow.Sink) {
	traces, _ := tracer.From(sink.Value, func(v ssa.Value) bool { return keyflow.Unstable(v) || keyflow.Minted(v) })
	if len(traces) > 0 {
		pass.Reportf(sink.Pos, "%s comes from %s in an attempt, so that every attempt of the call takes effect; send the Key of the external.Attempt",
			sink.What, traces[0].Name)
	}
}
