package measure_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/bench/internal/measure"
)

func TestJSON(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "result.json")
	result := measure.Latency{Calls: 1, P50: 2, P99: 3, PerSecond: 4}
	require.NoError(t, measure.WriteJSON(file, result))
	read, err := measure.ReadJSON[measure.Latency](file)
	require.NoError(t, err)
	require.Equal(t, result, *read)

	_, err = measure.ReadJSON[measure.Latency](filepath.Join(t.TempDir(), "absent.json"))
	require.ErrorContains(t, err, "reading the result")
	require.Error(t, measure.WriteJSON(t.TempDir(), result), "a folder is no file")
}
