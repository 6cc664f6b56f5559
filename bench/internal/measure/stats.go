package measure

import (
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

// Latency sums the sample up. A percentile is the smallest value that so many
// percent of the operations do not exceed.
func (s Sample) Latency() Latency {
	l := Latency{Calls: s.Calls, PerSecond: s.PerSecond()}
	if n := len(s.Latencies); n > 0 {
		sorted := slices.Sorted(slices.Values(s.Latencies))
		l.P50, l.P99 = sorted[(n*50+99)/100-1], sorted[(n*99+99)/100-1]
	}
	return l
}

// Middle is the round in the middle: each figure is the median of the rounds',
// and the calls are those of all.
func Middle(rounds []Sample) Latency {
	l := Latency{
		P50:       time.Duration(MedianOf(rounds, func(s Sample) float64 { return float64(s.Latency().P50) })),
		P99:       time.Duration(MedianOf(rounds, func(s Sample) float64 { return float64(s.Latency().P99) })),
		PerSecond: MedianOf(rounds, Sample.PerSecond),
	}
	for _, s := range rounds {
		l.Calls += s.Calls
	}
	return l
}

// Median is the middle value, the mean of the two middle ones of an even number,
// and 0 of none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// MedianOf is the median of a figure of each.
func MedianOf[T any](all []T, figure func(T) float64) float64 {
	values := make([]float64, 0, len(all))
	for _, one := range all {
		values = append(values, figure(one))
	}
	return Median(values)
}
