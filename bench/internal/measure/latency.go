package measure

import (
	"math"
	"slices"
	"time"
)

// Latency sums up the operations of a sample.
type Latency struct {
	Calls     int           `json:"calls"`
	P50       time.Duration `json:"p50_ns"` // of an operation
	P99       time.Duration `json:"p99_ns"`
	PerSecond float64       `json:"per_second"` // calls
}

// Latency sums the sample up.
func (s Sample) Latency() Latency {
	sorted := slices.Sorted(slices.Values(s.Latencies))
	return Latency{Calls: s.Calls, P50: percentile(sorted, 50), P99: percentile(sorted, 99), PerSecond: s.PerSecond()}
}

// Middle is the round in the middle: each figure is the median of the rounds',
// and the calls are those of all.
func Middle(rounds []Latency) Latency {
	var l Latency
	for _, r := range rounds {
		l.Calls += r.Calls
	}
	l.P50 = time.Duration(MedianOf(rounds, func(r Latency) float64 { return float64(r.P50) }))
	l.P99 = time.Duration(MedianOf(rounds, func(r Latency) float64 { return float64(r.P99) }))
	l.PerSecond = MedianOf(rounds, func(r Latency) float64 { return r.PerSecond })
	return l
}

// percentile is the smallest of the sorted values that p percent do not exceed.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
