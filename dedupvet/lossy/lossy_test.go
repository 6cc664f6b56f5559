package lossy_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/tooldedup/dedup/dedupvet/lossy"
)

func TestAnalyzer(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("../testdata")
	require.NoError(t, err)
	analysistest.Run(t, dir, lossy.Analyzer, "lossy")
}
