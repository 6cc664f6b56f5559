package measure

import (
	"slices"
	"time"
)

// Latency is a summary of the samples.
type Latency struct {
	Calls     int           `json:"calls"`
	P50       time.Duration `json:"p50_ns"` // of an operation
	P99       time.Duration `json:"p99_ns"`
	PerSecond float64       `json:"per_second"` // calls
}

// Rounds are the samples of one operation, one a round.
type Rounds []Sample

// Latency has the calls and the percentiles of all rounds, and the median of their rates.
// A percentile is the smallest value that so many percent of the operations do not exceed.
func (r Rounds) Latency() Latency {
	l := Latency{PerSecond: r.Median(Sample.PerSecond)}
	var all []time.Duration
	for _, s := range r {
		l.Calls += s.Calls
		all = append(all, s.Latencies...)
	}
	slices.Sort(all)
	if n := len(all); n > 0 {
		l.P50, l.P99 = all[(n*50+99)/100-1], all[(n*99+99)/100-1]
	}
	return l
}

// Latency is the Latency of a single round.
func (s Sample) Latency() Latency { return Rounds{s}.Latency() }

// P50 is the median time of an operation, in nanoseconds.
func (s Sample) P50() float64 { return float64(s.Latency().P50) }

// Median is the median of a figure of each round.
func (r Rounds) Median(figure func(Sample) float64) float64 {
	values := make([]float64, len(r))
	for i, s := range r {
		values[i] = figure(s)
	}
	return Median(values)
}

// Ratios are a figure's ratios to that of other operations in the same rounds.
func (r Rounds) Ratios(other Rounds, figure func(Sample) float64) []float64 {
	ratios := make([]float64, len(r))
	for i, s := range r {
		ratios[i] = figure(s) / figure(other[i])
	}
	return ratios
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
