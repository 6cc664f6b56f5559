package ignore_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/tooldedup/dedup/dedupvet/effectgoroutine"
	"github.com/tooldedup/dedup/dedupvet/effectoutside"
	"github.com/tooldedup/dedup/dedupvet/effectwrites"
	"github.com/tooldedup/dedup/dedupvet/keyloop"
	"github.com/tooldedup/dedup/dedupvet/keysource"
)

// The comment is one for all analyzers: each has a finding in its package, and one
// that is silenced.
func TestEveryAnalyzer(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("../../testdata")
	require.NoError(t, err)
	for _, analyzer := range []*analysis.Analyzer{
		effectgoroutine.Analyzer, effectoutside.Analyzer,
		effectwrites.Analyzer, keyloop.Analyzer, keysource.Analyzer,
	} {
		t.Run(analyzer.Name, func(t *testing.T) {
			t.Parallel()
			analysistest.Run(t, dir, analyzer, "ignored/"+analyzer.Name)
		})
	}
}
