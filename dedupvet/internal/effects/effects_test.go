package effects_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/tooldedup/dedup/dedupvet/internal/effects"
)

func TestAnalyzer(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("../../testdata")
	require.NoError(t, err)
	analysistest.Run(t, dir, &analysis.Analyzer{
		Name:     "regions",
		Doc:      "report every region",
		Requires: []*analysis.Analyzer{effects.Analyzer},
		Run: func(pass *analysis.Pass) (any, error) {
			for _, region := range effects.Of(pass) {
				kind := "helper"
				if region.Effect {
					kind = "effect"
				}
				pass.Reportf(region.Func.Syntax().Pos(), "%s", kind)
			}
			return nil, nil
		},
	}, "effects")
}
