package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

func TestMedian(t *testing.T) {
	t.Parallel()

	values := []float64{9, 1, 5}
	require.Equal(t, 5.0, measure.Median(values))
	require.Equal(t, []float64{9, 1, 5}, values, "the argument is left alone")
	require.Equal(t, 3.0, measure.Median([]float64{5, 1}))
	require.Zero(t, measure.Median(nil))
	require.Equal(t, 2.0, measure.MedianOf([]string{"abc", "a", "ab"}, func(s string) float64 { return float64(len(s)) }))
}
