package effects

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

func TestAnalyzer(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("../testdata")
	require.NoError(t, err)
	analysistest.Run(t, dir, &analysis.Analyzer{
		Name:     "regions",
		Doc:      "report every region",
		Requires: []*analysis.Analyzer{regions},
		Run: func(pass *analysis.Pass) (any, error) {
			for _, r := range pass.ResultOf[regions].([]*region) {
				kind := "helper"
				if r.effect {
					kind = "effect"
				}
				pass.Reportf(r.fn.Syntax().Pos(), "%s", kind)
			}
			return nil, nil
		},
	}, "effects")
}
