package dedup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
)

// SweeperOptions configure [NewSweeper]. Nil and zero mean the defaults.
type SweeperOptions struct {
	// Interval is the time between two sweeps, drawn evenly from the upper half
	// of it each time, so that instances do not sweep in step. Default 1
	// minute, at least 1 ms.
	Interval time.Duration
	// Sweep are the options of each sweep.
	Sweep SweepOptions
	// RecordStats has the Sweeper write to the table tool_dedup_stat, before each sweep and
	// when its context ends, what [Deduper.Stats] has counted since the last time: one row
	// for each tool and outcome that had calls. It adds up the rows of all processes that are
	// older than an hour by quarters of an hour, and deletes those that are older than 14
	// days. Calls do not wait for it. What cannot be written is kept for the next time, and
	// SweptData.StatsErr says why. Default false.
	RecordStats bool
}

// Sweeper runs [Deduper.Sweep] on an interval.
type Sweeper struct {
	d     *Deduper
	opts  SweeperOptions
	stats *statsRecorder // nil where nothing is recorded
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
	if s.opts.RecordStats {
		s.stats = d.stats.recorderOf(d)
	}
	return s, nil
}

// Run sweeps at once and then on the interval until ctx ends, and returns its
// error. A sweep that fails does not end it: the tracer is called, and the next
// one tries again. With RecordStats it takes up to 3 seconds more to write the last
// counts, so end it after the calls. One Run at a time.
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
	if s.stats == nil {
		return nil
	}
	return s.stats.record(ctx, timeout)
}

const (
	// recordTimeout bounds one writing of counts.
	recordTimeout = 5 * time.Second
	// lastRecordTimeout bounds that at the end of a Sweeper, which shutting down waits for.
	lastRecordTimeout = 3 * time.Second
)

// statsRecorder writes what a Deduper counts to tool_dedup_stat. All Sweepers of a Deduper share one, so
// that no call is written twice.
type statsRecorder struct {
	d        *Deduper
	instance string
	// mu is held by the Sweeper that is writing.
	mu sync.Mutex
	// taken are the counts that are written or pending.
	taken map[statsKey]CallStats
	// pending are those whose writing has not succeeded. It is tried again as it is: the
	// answer may have been lost.
	pending *table.Counts
}

func newStatsRecorder(d *Deduper) *statsRecorder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	return &statsRecorder{
		d: d, taken: make(map[statsKey]CallStats),
		instance: fmt.Sprintf("%s:%d:%s", table.Storable(host), os.Getpid(), hex.EncodeToString(random)),
	}
}

// recorderOf returns the recorder of d.
func (st *stats) recorderOf(d *Deduper) *statsRecorder {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.recorder == nil {
		st.recorder = newStatsRecorder(d)
	}
	return st.recorder
}

// record writes what was counted since the last time, adds up some of the rows of the past, and deletes
// some of the oldest. What cannot be written is kept for the next time. It does nothing while another
// Sweeper of the Deduper is writing.
func (r *statsRecorder) record(ctx context.Context, timeout time.Duration) error {
	if !r.mu.TryLock() {
		return nil
	}
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := r.d.acquire(ctx)
	if err == nil {
		defer r.d.release(ctx, conn)
		err = r.recordOn(ctx, conn.Conn())
	}
	if err != nil {
		return fmt.Errorf("dedup: recording counts: %w", cleaned(err))
	}
	return nil
}

func (r *statsRecorder) recordOn(ctx context.Context, conn *pgx.Conn) error {
	if err := r.write(ctx, conn); err != nil { // what was left from the last time
		return err
	}
	now, err := r.d.table().Now(ctx, conn)
	if err != nil {
		return err
	}
	r.take(now)
	if err := r.write(ctx, conn); err != nil {
		return err
	}
	if err := r.d.table().ForgetCounts(ctx, conn); err != nil {
		return err
	}
	return r.d.table().MergeCounts(ctx, conn)
}

// write writes what is pending.
func (r *statsRecorder) write(ctx context.Context, conn *pgx.Conn) error {
	if r.pending == nil {
		return nil
	}
	err := r.d.table().RecordCounts(ctx, conn, r.instance, r.pending)
	if err == nil {
		r.pending = nil
	}
	return err
}

// take makes what was counted since the last time pending.
func (r *statsRecorder) take(now time.Time) {
	var c table.Counts
	for _, count := range r.d.stats.snapshot().Calls {
		key := statsKey{count.Tool, count.Outcome}
		before := r.taken[key]
		if count.Calls == before.Calls {
			continue
		}
		r.taken[key] = count
		c.Tools, c.Outcomes = append(c.Tools, count.Tool), append(c.Outcomes, string(count.Outcome))
		c.Calls = append(c.Calls, count.Calls-before.Calls)
		c.Seconds = append(c.Seconds, (count.Duration - before.Duration).Seconds())
		c.Waited = append(c.Waited, (count.Waited - before.Waited).Seconds())
	}
	if c.Calls != nil {
		c.At = now
		r.pending = &c
	}
}
