// Dedupvet finds mistakes in tools that use package dedup, which tests miss because the tool works
// until a call is repeated.
//
//	go install github.com/tooldedup/dedup/dedupvet@latest
//	go vet -vettool=$(which dedupvet) ./...
//
// It also runs alone, as `dedupvet ./...`. In both ways -NAME runs one analyzer, -NAME=false skips
// one, and `dedupvet help NAME` explains it. The exit code is 0 if nothing is found, and otherwise
// 1 from go vet and 3 from dedupvet.
//
// The analyzers of package effects check effects: functions that are passed as a dedup.Effect, the
// Run of a tool, the Archive of a sweep, and the functions of an external.Tool that get a
// transaction. They also check the functions of the same package that effects call. The analyzers
// of package keys check the keys of calls, wherever they are made. Other programs that run
// analyzers can import both packages.
//
// A comment `//dedupvet:ignore reason` hides the findings on its line, or on the next line if the
// comment stands alone. Without a reason it has no effect.
//
// README.md shows a bad and a good example for each analyzer, and its limits.
package main

import (
	"slices"

	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/tooldedup/dedup/dedupvet/effects"
	"github.com/tooldedup/dedup/dedupvet/keys"
)

// analyzers are all analyzers.
var analyzers = slices.Concat(effects.Analyzers, keys.Analyzers)

// multichecker serves `go vet -vettool` too.
func main() { multichecker.Main(analyzers...) }
