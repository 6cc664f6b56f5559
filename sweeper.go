package dedup

import (
	"context"
	"fmt"
	"time"
)

// SweeperOptions configure [NewSweeper]. Nil and zero mean the defaults.
type SweeperOptions struct {
	// Interval is the time between two sweeps, drawn evenly from the upper half
	// of it each time, so that instances do not sweep in step. Default 1
	// minute, at least 1 ms.
	Interval time.Duration
	// Sweep are the options of each sweep.
	Sweep SweepOptions
}

// Sweeper runs [Deduper.Sweep] on an interval.
type Sweeper struct {
	d    *Deduper
	opts SweeperOptions
}

// NewSweeper returns a sweeper for d. The error is an [ErrInvalid].
func NewSweeper(d *Deduper, opts *SweeperOptions) (*Sweeper, error) {
	s := &Sweeper{d: d}
	if opts != nil {
		s.opts = *opts
	}
	if d == nil || d.pool == nil {
		return nil, invalidOption("d", "must come from New")
	}
	setDefault(&s.opts.Interval, time.Minute)
	if s.opts.Interval < time.Millisecond {
		return nil, invalidOption("Interval", "must be at least 1ms")
	}
	var err error
	if s.opts.Sweep, err = s.opts.Sweep.resolve(); err != nil {
		return nil, fmt.Errorf("Sweep: %w", err)
	}
	return s, nil
}

// Run sweeps at once and then on the interval until ctx ends, and returns its
// error. A sweep that fails does not end it: the tracer is called, and the next
// one tries again.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		_, _ = s.d.Sweep(ctx, &s.opts.Sweep) // reported to the tracer
		timer := time.NewTimer(jitter(s.opts.Interval))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
