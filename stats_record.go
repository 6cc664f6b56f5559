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

// statsRecord tracks which of a Deduper's counts its Sweepers have written to tool_dedup_stat. The
// Sweepers of a Deduper share it, so that each call is written once.
type statsRecord struct {
	// mu is held by the Sweeper that is writing.
	mu sync.Mutex
	// instance names the Deduper in the rows. It is empty before the first write.
	instance string
	// taken are the counts that are written or pending.
	taken map[statsKey]CallStats
	// pending are counts that were sent without a successful reply. They are sent again unchanged,
	// because the server may have them.
	pending *table.Counts
}

// update writes pending counts, then the counts since the last update, and maintains older rows.
func (r *statsRecord) update(ctx context.Context, conn *pgx.Conn, t *table.Table, st *stats) error {
	if err := r.write(ctx, conn, t); err != nil {
		return err
	}
	now, err := t.Now(ctx, conn)
	if err != nil {
		return err
	}
	r.take(now, st.snapshot().Calls)
	if err := r.write(ctx, conn, t); err != nil {
		return err
	}
	if err := t.ForgetCounts(ctx, conn); err != nil {
		return err
	}
	return t.MergeCounts(ctx, conn)
}

// write writes the pending counts, if there are any.
func (r *statsRecord) write(ctx context.Context, conn *pgx.Conn, t *table.Table) error {
	if r.pending == nil {
		return nil
	}
	if r.instance == "" {
		r.instance = newInstance()
	}
	err := t.RecordCounts(ctx, conn, r.instance, r.pending)
	if err == nil {
		r.pending = nil
	}
	return err
}

// take makes the counts since the last take pending.
func (r *statsRecord) take(now time.Time, counts []CallStats) {
	if r.taken == nil {
		r.taken = make(map[statsKey]CallStats)
	}
	var c table.Counts
	for _, count := range counts {
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

// newInstance returns a name of host, process and Deduper. Its random part keeps two Dedupers of
// one process apart.
func newInstance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	return fmt.Sprintf("%s:%d:%s", table.Storable(host), os.Getpid(), hex.EncodeToString(random))
}
