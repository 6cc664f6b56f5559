package measure_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

// sample is one of the given number of calls in a second.
func sample(calls int, latencies ...time.Duration) measure.Sample {
	return measure.Sample{Calls: calls, Elapsed: time.Second, Latencies: latencies}
}

func TestLatency(t *testing.T) {
	t.Parallel()

	latencies := make([]time.Duration, 200)
	for i := range latencies {
		latencies[len(latencies)-1-i] = time.Duration(i + 1)
	}
	s := measure.Sample{Calls: 400, Elapsed: 2 * time.Second, Latencies: latencies}
	require.Equal(t, measure.Latency{Calls: 400, P50: 100, P99: 198, PerSecond: 200}, s.Latency())
	require.Equal(t, time.Duration(200), latencies[0], "the sample is left alone")
	require.Equal(t, measure.Latency{Calls: 1, P50: 7, P99: 7, PerSecond: 1}, sample(1, 7).Latency())
	require.Zero(t, measure.Sample{}.Latency())
	require.Equal(t, measure.Latency{Calls: 3, P50: 7, P99: 9, PerSecond: 1.5}, sample(1, 9).And(sample(2, 1, 7)).Latency(), "two seconds")
}

func TestMiddle(t *testing.T) {
	t.Parallel()

	rounds := []measure.Sample{sample(1, 30, 50), sample(3, 10, 900), sample(2, 20, 40)}
	require.Equal(t, measure.Latency{Calls: 6, P50: 20, P99: 50, PerSecond: 2}, measure.Middle(rounds), "each figure by itself")
	require.Equal(t, measure.Latency{Calls: 4, P50: 20, P99: 475, PerSecond: 2}, measure.Middle(rounds[:2]))
	require.Zero(t, measure.Middle(nil))
}

func TestMedian(t *testing.T) {
	t.Parallel()

	values := []float64{9, 1, 5}
	require.Equal(t, 5.0, measure.Median(values))
	require.Equal(t, []float64{9, 1, 5}, values, "the argument is left alone")
	require.Equal(t, 3.0, measure.Median([]float64{5, 1}))
	require.Zero(t, measure.Median(nil))
	require.Equal(t, 2.0, measure.MedianOf([]string{"abc", "a", "ab"}, func(s string) float64 { return float64(len(s)) }))
}
