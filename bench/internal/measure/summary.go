package measure

import (
	"slices"
	"time"
)

// A Summary is what the rounds of one cell amount to.
type Summary struct {
	PerSecond float64       // calls, median over the rounds
	Slowest   float64       // calls a second in the slowest round
	Fastest   float64       // and in the fastest
	P50, P99  time.Duration // of one operation, over all rounds together
	Ops       int           // operations behind the percentiles

	// Ratio is the median over the rounds of the rate divided by the rate of
	// the base in the same round; Low and High are the extremes. All are 0
	// where there is no base.
	Ratio, Low, High float64
}

// Summarize compares the samples of a cell, one a round, with those of the base.
func Summarize(samples, base []Sample) Summary {
	var rates, ratios []float64
	var latencies []time.Duration
	for round, s := range samples {
		rates = append(rates, s.PerSecond())
		latencies = append(latencies, s.Latencies...)
		if round < len(base) && base[round].PerSecond() > 0 {
			ratios = append(ratios, s.PerSecond()/base[round].PerSecond())
		}
	}
	summary := Summary{
		PerSecond: Median(rates),
		Ops:       len(latencies),
	}
	if len(rates) > 0 {
		summary.Slowest, summary.Fastest = slices.Min(rates), slices.Max(rates)
	}
	l := Sample{Latencies: latencies}.Latency()
	summary.P50, summary.P99 = l.P50, l.P99
	if len(ratios) > 0 {
		summary.Ratio, summary.Low, summary.High = Median(ratios), slices.Min(ratios), slices.Max(ratios)
	}
	return summary
}
