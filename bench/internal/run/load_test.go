package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
)

// sample is one of the given number of calls in a second.
func sample(calls int, latencies ...time.Duration) measure.Sample {
	return measure.Sample{Calls: calls, Elapsed: time.Second, Latencies: latencies}
}

func TestSummarize(t *testing.T) {
	t.Parallel()

	// In the second round the machine was half as fast, which changes no ratio.
	base := []measure.Sample{sample(1000), sample(500), sample(1000)}
	samples := []measure.Sample{sample(800, 1, 2), sample(400, 9), sample(700, 3)}
	require.Equal(t, report.Cell{
		PerSecond: 700, Slowest: 400, Fastest: 800, P50: 2, P99: 9, Ops: 4, Ratio: 0.8, RatioLow: 0.7, RatioHigh: 0.8,
	}, summarize(samples, base))
}
