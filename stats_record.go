package dedup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
)

const (
	// recordTimeout bounds one writing of counts.
	recordTimeout = 5 * time.Second
	// lastRecordTimeout bounds that at the end of a Sweeper, which shutting down waits for.
	lastRecordTimeout = 3 * time.Second
)

// statsRecorder writes what a Deduper counts to tool_dedup_stat.
type statsRecorder struct {
	d        *Deduper
	instance string
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

// record writes what was counted since it was called last, adds up some of what is no longer
// young, and deletes some of what is old.
// What cannot be written is kept for the next time.
func (r *statsRecorder) record(ctx context.Context, timeout time.Duration) error {
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
	for _, count := range r.d.stats.calls() {
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
