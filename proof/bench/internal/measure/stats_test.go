package measure_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/bench/internal/measure"
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
}

func TestRounds(t *testing.T) {
	t.Parallel()

	rounds := measure.Rounds{sample(1, 30, 50), sample(3, 10, 900), sample(2, 20, 40)}
	require.Equal(t, measure.Latency{Calls: 6, P50: 30, P99: 900, PerSecond: 2}, rounds.Latency(), "of all operations, and the median rate")
	require.Equal(t, 20.0, rounds.Median(measure.Sample.P50))
	require.Zero(t, measure.Rounds{}.Latency())

	other := measure.Rounds{sample(2, 15), sample(2, 40), sample(1, 20)}
	require.Equal(t, []float64{0.5, 1.5, 2}, rounds.Ratios(other, measure.Sample.PerSecond), "to the same round")
	require.Equal(t, []float64{2, 0.25, 1}, rounds.Ratios(other, measure.Sample.P50))
}

func TestMedian(t *testing.T) {
	t.Parallel()

	values := []float64{9, 1, 5}
	require.Equal(t, 5.0, measure.Median(values))
	require.Equal(t, []float64{9, 1, 5}, values, "the argument is left alone")
	require.Equal(t, 3.0, measure.Median([]float64{5, 1}))
	require.Zero(t, measure.Median(nil))
}
