package scale

import (
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

// SoakVerdict compares the last third of a soak with the middle one. The first
// is left out: the table grows until its first records are forgotten.
type SoakVerdict struct {
	// Enough reports whether there are lines enough, and thirds are so long that
	// the table had grown full, and autovacuum had come by, before the middle
	// one began.
	Enough bool `json:"enough"`
	// SizeRatio is the table with its indexes, P99Ratio the p99 of calls: the
	// median of the last third divided by that of the middle one.
	SizeRatio float64 `json:"size_ratio"`
	P99Ratio  float64 `json:"p99_ratio"`
	Leaks     bool    `json:"leaks"`
	Drifts    bool    `json:"drifts"`

	Errors  int64 `json:"errors"`
	Doubled int64 `json:"doubled_effects"`
	Lost    int64 `json:"lost_effects"` // of calls that were answered
}

const (
	// A table that is vacuumed now and then goes up and down by some tenths.
	leakRatio = 1.25
	// The slowest call of a hundred is at the mercy of the machine.
	driftRatio = 2
	leastLines = 9
	// Autovacuum looks once a minute.
	leastThird = 2 * time.Minute
)

func judgeSoak(lines []SoakLine, tally SoakTally, o SoakOptions) SoakVerdict {
	v := SoakVerdict{
		Errors:  tally.Errors,
		Doubled: tally.Effects - tally.Keys,
		Lost:    max(0, tally.Firsts-tally.Keys),
	}
	n := len(lines)
	life := 2*o.Retention + o.Sweep // of a record
	if n < leastLines || lines[n/3].At-o.Every < max(life, leastThird) {
		return v
	}
	middleThird, lastThird := lines[n/3:2*n/3], lines[2*n/3:]
	compare := func(figure func(SoakLine) float64) float64 {
		return ratio(measure.MedianOf(lastThird, figure), measure.MedianOf(middleThird, figure))
	}
	v.Enough = true
	v.SizeRatio = compare(func(l SoakLine) float64 { return float64(l.Sizes.Total) })
	v.P99Ratio = compare(func(l SoakLine) float64 { return float64(l.Calls.P99) })
	v.Leaks = v.SizeRatio > leakRatio
	v.Drifts = v.P99Ratio > driftRatio
	return v
}

// verdict is an error where calls failed or effects are wrong. Growth and drift
// are for a reader to judge.
func (r *Soak) verdict() error {
	v := r.Verdict
	var errs []error
	if v.Doubled > 0 {
		errs = append(errs, fmt.Errorf("%d effects were doubled", v.Doubled))
	}
	if v.Lost > 0 {
		errs = append(errs, fmt.Errorf("%d calls were answered and have no effect", v.Lost))
	}
	if v.Errors > 0 {
		errs = append(errs, fmt.Errorf("%d calls or sweeps failed, the first with: %s", v.Errors, r.Tally.Some[0]))
	}
	return errors.Join(errs...)
}
