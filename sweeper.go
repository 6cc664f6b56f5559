package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// SweeperOptions configure [NewSweeper]. Nil and zero fields mean the defaults.
type SweeperOptions struct {
	// Interval is the time between two sweeps. Each pause is random between half of it and all of
	// it, so that instances do not sweep in step. Default: 1 minute, at least 1 ms.
	Interval time.Duration
	// Sweep are the options of each sweep.
	Sweep SweepOptions
	// RecordStats makes the Sweeper write the counts of [Deduper.Stats] to the table
	// tool_dedup_stat, before each sweep and when its context ends: one row for each tool and
	// outcome with calls since the last write. It merges rows of all processes that are older than
	// an hour by quarters of an hour, and deletes rows that are older than 14 days. Calls do not
	// wait for it. Counts that cannot be written are kept for the next time, and SweptData.StatsErr
	// has the error. Default: false.
	RecordStats bool
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
		if bad, ok := errors.AsType[*InvalidError](err); ok {
			bad.Field = "Sweep." + bad.Field
		}
		return nil, err
	}
	return s, nil
}

// Run sweeps at once and then on the interval until ctx ends, and returns ctx's error. A failed
// sweep does not end Run: the tracer gets its error, and the next sweep tries again. With
// RecordStats, Run takes up to 3 seconds longer to write the last counts, so cancel ctx after the
// calls have ended. Do not run a Sweeper twice at a time.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		_, _ = s.d.sweep(ctx, s.opts.Sweep, s.record(ctx, recordTimeout)) // reported to the tracer
		if sleep(ctx, jitter(s.opts.Interval)) != nil {
			_ = s.record(context.WithoutCancel(ctx), lastRecordTimeout)
			return ctx.Err()
		}
	}
}

func (s *Sweeper) record(ctx context.Context, timeout time.Duration) error {
	if !s.opts.RecordStats {
		return nil
	}
	return s.d.recordStats(ctx, timeout)
}

const (
	// recordTimeout bounds one write of counts.
	recordTimeout = 5 * time.Second
	// lastRecordTimeout bounds the last write of a Sweeper, because shutting down waits for it.
	lastRecordTimeout = 3 * time.Second
)

// recordStats writes the calls counted since the last time, merges some older rows and deletes some
// of the oldest. Counts that cannot be written are kept for the next time. It does nothing if
// another Sweeper of the Deduper is writing.
func (d *Deduper) recordStats(ctx context.Context, timeout time.Duration) error {
	r := &d.stats.record
	if !r.mu.TryLock() {
		return nil
	}
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := d.acquire(ctx)
	if err == nil {
		defer d.release(ctx, conn)
		err = r.update(ctx, conn.Conn(), d.table(), &d.stats)
	}
	if err != nil {
		return fmt.Errorf("dedup: recording counts: %w", redact(err))
	}
	return nil
}
