package effectgoroutine_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/tooldedup/dedup/dedupvet/effectgoroutine"
)

func TestAnalyzer(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("../testdata")
	require.NoError(t, err)
	analysistest.Run(t, dir, effectgoroutine.Analyzer, "effectgoroutine")
}
