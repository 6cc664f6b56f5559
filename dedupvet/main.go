package main

import (
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/tooldedup/dedup/dedupvet/effectgoroutine"
	"github.com/tooldedup/dedup/dedupvet/effectoutside"
	"github.com/tooldedup/dedup/dedupvet/effectwrites"
	"github.com/tooldedup/dedup/dedupvet/keyloop"
	"github.com/tooldedup/dedup/dedupvet/keysource"
)

// analyzers are all that there are.
var analyzers = []*analysis.Analyzer{
	effectwrites.Analyzer,
	effectgoroutine.Analyzer,
	effectoutside.Analyzer,
	keysource.Analyzer,
	keyloop.Analyzer,
}

// multichecker serves `go vet -vettool` too.
func main() { multichecker.Main(analyzers...) }
