package dedup

import (
	"context"
	"errors"
	"time"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// record writes the records and ends the transaction. The last pipeline carries the end.
func (t *transaction) record(ctx context.Context, end wire.Query) verdict {
	for from := 0; ; {
		to := min(from+t.width, len(t.calls))
		if to == len(t.calls) {
			return t.recordLast(ctx, from, end)
		}
		p := t.on.Pipeline()
		t.queueRecords(p, from, to)
		results := p.Send(ctx)
		bad, err := t.readRecords(results, from, to)
		if err = results.Close(err); err != nil {
			return recordFailed(bad, err, results.SentAt)
		}
		from = to
	}
}

// recordLast sends the last records and the end in one pipeline.
//
// A COMMIT runs on a context of its own: cancelling it would turn the outcome into a
// guess, and make pgx cancel a wait for a synchronous standby, which shows a
// commit that is not replicated (measured).
func (t *transaction) recordLast(ctx context.Context, from int, end wire.Query) verdict {
	commits := end == t.table.Commit
	p := t.on.Pipeline()
	t.queueRecords(p, from, len(t.calls))
	p.Queue(end)
	if commits {
		wire.LimitIO(t.conn, t.g.d.opts.CommitTimeout)
		defer wire.UnlimitIO(t.conn)
		ctx = p.Uncancelled(ctx)
	}
	results := p.Send(ctx)
	bad, err := t.readRecords(results, from, len(t.calls))
	if !commits {
		if err = results.Close(err); err != nil {
			return recordFailed(bad, err, results.SentAt)
		}
		return verdict{state: committed}
	}
	switch outcome, err := results.Finish(t.conn.PgConn(), err); outcome {
	case wire.Committed:
		return verdict{state: committed}
	case wire.Unknown:
		return verdict{state: unknown, err: err, until: t.g.d.doubtAtCommit(t.table, err)}
	default:
		return recordFailed(bad, err, results.SentAt)
	}
}

// recordFailed is the verdict on a transaction whose records, sent then, could not be
// written. bad is nil where the end raised err.
func recordFailed(bad *call, err error, sent time.Time) verdict {
	v := verdict{state: undecided, bad: bad, err: err, atRecord: bad != nil}
	if v.atRecord && wire.SQLState(err) == wire.CodeLockNotAvailable {
		v.blocked = time.Since(sent)
	}
	return v
}

// recordLimit is how long writing the records may wait for a twin that does not hold the
// identity's lock: as long as the least patient call waits, which CommitTimeout bounds, and
// hardly at all for a call without its own lock, which may well have a twin.
func (t *transaction) recordLimit() (limit time.Duration) {
	if !t.locked {
		return table.RowTimeout
	}
	for _, c := range t.calls {
		own := c.waiter.inPostgres()
		if own > 0 && c.waiter.max > 0 {
			own = min(max(own-c.waiter.waited, 0)+table.RowTimeout, t.g.d.opts.CommitTimeout/2)
		}
		if own != 0 && (limit == 0 || own < limit) {
			limit = own
		}
	}
	return limit
}

// queueRecords queues the records of some calls.
func (t *transaction) queueRecords(p *wire.Pipeline, from, to int) {
	if t.limit > 0 {
		t.table.QueueSetLockTimeout(p, t.limit)
	}
	for i, c := range t.calls[from:to] {
		c.written = table.NewRecord(&c.Entry, c.out, t.texts[from+i])
		t.table.QueueRecord(p, &c.Entry, t.started, c.out, t.texts[from+i])
	}
	if t.limit > 0 {
		t.table.QueueResetLockTimeout(p)
	}
}

// readRecords reads when the records that queueRecords queued were written. It returns
// the call whose record could not be.
func (t *transaction) readRecords(results *wire.Results, from, to int) (bad *call, err error) {
	if t.limit > 0 {
		if err := t.table.ReadSetLockTimeout(results); err != nil {
			return nil, err
		}
	}
	for _, c := range t.calls[from:to] {
		err := table.ReadRecord(results, &c.written, &c.Entry)
		if errors.Is(err, table.ErrSwallowed) {
			c.written.CreatedAt = time.Time{}
		} else if err != nil {
			return c, err
		}
	}
	if t.limit > 0 {
		err = t.table.ReadResetLockTimeout(results)
	}
	return nil, err
}

// doubtAtCommit is when a doubt ends that err left at COMMIT. A lock proves nothing
// where the COMMIT was passed on: it is not held where the record is written, and is
// free while another server may commit yet. A claim is held there.
func (d *Deduper) doubtAtCommit(t *table.Table, err error) (until time.Time) {
	if d.opts.Order == LockFirst && (wire.IsRaised(err) || !t.Profile.LockProves) {
		return never
	}
	return time.Time{}
}
