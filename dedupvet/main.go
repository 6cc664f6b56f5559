// Dedupvet finds mistakes in tools that are written with package dedup: those
// that no test sees, because the tool works until a call is repeated.
//
//	go install github.com/tooldedup/dedup/dedupvet@latest
//	go vet -vettool=$(which dedupvet) ./...
//
// It also runs on its own, as `dedupvet ./...`. Either way -NAME runs one
// analyzer, -NAME=false leaves one out, and `dedupvet help NAME` explains it. The
// exit code is 0 where nothing is found; otherwise go vet answers 1 and dedupvet 3.
//
// The analyzers of package effects look into effects: functions that are passed where a
// dedup.Effect is expected, the Run of a tool, the Archive of a sweep, what an external.Tool
// writes in a transaction, and the functions of the same package that these call. Those of
// package keys look at the keys of calls, wherever they are made. Both packages can be
// imported by a program that runs analyzers of others too.
//
// A comment `//dedupvet:ignore reason` silences the findings on its line, or on
// the next one if it stands alone. Without a reason they stay.
//
// README.md shows a bad and a good example of each, and what they cannot see.
package main

import (
	"slices"

	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/tooldedup/dedup/dedupvet/effects"
	"github.com/tooldedup/dedup/dedupvet/keys"
)

// analyzers are all that there are.
var analyzers = slices.Concat(effects.Analyzers, keys.Analyzers)

// multichecker serves `go vet -vettool` too.
func main() { multichecker.Main(analyzers...) }
