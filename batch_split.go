package dedup

import (
	"context"
	"slices"
	"time"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// parts runs the calls of a batch that were taken together (BatchOptions.Size). A part is one
// transaction for several calls, whose statements ride with the look-up. run cuts the calls into
// parts of MaxLocks, and send splits a part that fails. A call that cannot share a part runs alone,
// as in DoStatement.
type parts struct {
	ctx context.Context
	d   *Deduper
	// alone are the calls that will run alone, after all parts.
	alone []*call
	// failuresLeft is the number of further parts that may fail before the remaining calls run
	// alone.
	failuresLeft int
}

// minFailures is the least number of parts that may fail before the remaining calls run alone. In a
// large batch it is a quarter of its calls.
const minFailures = 3

// run runs every valid call. If an identity comes twice, the second call gets the first one's
// answer.
func (b *parts) run(calls []*call) {
	firsts := make(map[table.Identity]*call, len(calls))
	var once, repeats []*call
	for _, c := range calls {
		switch {
		case c.err != nil:
		case firsts[c.Identity] != nil:
			repeats = append(repeats, c)
		default:
			firsts[c.Identity] = c
			once = append(once, c)
		}
	}
	// Sorted, so that two batches do not wait for each other crosswise.
	slices.SortFunc(once, func(a, b *call) int { return a.Compare(b.Identity) })
	rides := b.d.rides(b.ctx)
	if !rides || slices.ContainsFunc(once, func(c *call) bool { return c.lookFirst }) {
		once = b.lookUp(once)
	}
	b.alone, b.failuresLeft = nil, max(minFailures, len(once)/4)
	if !rides {
		b.alone = once
	} else {
		for part := range slices.Chunk(once, table.MaxLocks) { // each call has its lock
			b.send(part)
		}
	}
	var outage *exhaustion
	for _, c := range append(b.alone, repeats...) {
		switch first := firsts[c.Identity]; {
		case first != c && first.err == nil:
			c.rec = first.rec
		case outage != nil && b.ctx.Err() == nil: // each would retry in vain, one after the other
			c.err = c.exhaust(outage)
		default:
			c.err = c.leadOrFollow(c.span.ctx)
			if c.exhausted != nil && c.exhausted.outage {
				outage = c.exhausted
			}
		}
	}
}

// send runs the calls of a part. If one call makes the part fail, send splits the part there. That
// call will run alone. The calls before it, whose statements succeeded, are sent again as a part,
// and the untried calls after it as another.
func (b *parts) send(part []*call) {
	for len(part) > 1 && b.failuresLeft >= 0 {
		end, culprit := b.attempt(part)
		switch end.kind {
		case done:
			for _, c := range part {
				c.err = c.useWritten(b.ctx)
			}
			return
		case unknown:
			for _, c := range part {
				c.lost.add(end.err, c.written)
			}
			b.alone = append(b.alone, part...)
			return
		}
		b.failuresLeft--
		switch {
		case culprit >= 0:
			b.send(part[:culprit])
			b.alone = append(b.alone, part[culprit])
			part = part[culprit+1:]
			continue
		case wire.SQLState(end.err) == wire.CodePreparedMissing: // another user of the connection discarded its prepared statements
			continue
		case table.IsConflict(end.err):
			b.lookUp(part)
			fallthrough
		case end.kind == found:
			if rest := b.remaining(part); len(rest) < len(part) {
				part = rest
				continue
			}
		}
		break // alone, each call gets its own error
	}
	b.alone = append(b.alone, part...)
}

// remaining returns the calls of a part that may share another part. A call with a record has its
// answer. A call with a twin, or with a forgotten record that must be deleted first, will run
// alone.
func (b *parts) remaining(part []*call) (rest []*call) {
	for _, c := range part {
		switch {
		case c.rec != nil:
		case c.seen.Busy, c.separateTrip:
			b.alone = append(b.alone, c)
		default:
			rest = append(rest, c)
		}
	}
	return rest
}

// attempt makes one transaction of a part. The ending is found if some calls have a record or a
// twin. culprit is the index of the call that made the part fail, or -1 if it is unknown.
func (b *parts) attempt(part []*call) (end ending, culprit int) {
	pooled, err := b.d.acquire(b.ctx)
	if err != nil {
		return retry(err), -1
	}
	defer b.d.release(b.ctx, pooled)
	conn := pooled.Conn()
	if err = b.d.checkTable(b.ctx, conn); err == nil && b.ctx.Err() != nil {
		err = b.ctx.Err()
	}
	if err != nil {
		wire.DropUnusable(b.ctx, conn, err)
		return retry(err), -1
	}
	return b.attemptOn(wire.On(conn), part)
}

// attemptOn makes the transaction on a connection. The transaction may stay open.
func (b *parts) attemptOn(on *wire.Conn, part []*call) (end ending, culprit int) {
	t, conn := b.d.table(), on.Conn()
	entries := make([]*table.Entry, len(part))
	riders, queries := make([]*table.Rider, len(part)), make([]wire.Query, len(part))
	for i, c := range part {
		c.attempts++
		c.seen = table.Seen{}
		entries[i], riders[i], queries[i] = &c.Entry, &c.stmt.Rider, c.stmt.Query
	}
	if err := t.PrepareRiders(b.ctx, on, limitOf(part), queries...); err != nil {
		culprit = -1
		if wire.IsRaised(err) {
			culprit = slices.IndexFunc(queries, func(q wire.Query) bool { return on.NeedsPrepare(q) })
		}
		wire.DropUnusable(b.ctx, conn, err)
		return fail(err), culprit
	}
	started, failed, err := t.OpenAll(b.ctx, on, entries, riders, func(n int, s *table.Seen) {
		part[n].seen = *s
		part[n].useLookUp()
	})
	switch {
	case failed >= 0:
		if mayBeStale(err) {
			on.Invalidate(queries[failed])
		}
		wire.DropUnusable(b.ctx, conn, err)
		return fail(err), failed
	case table.IsStopped(err):
		return ending{kind: found}, -1
	case err != nil:
		wire.DropUnusable(b.ctx, conn, err)
		return fail(err), -1
	case b.ctx.Err() != nil:
		return retry(b.ctx.Err()), -1
	}
	if err := wire.CheckSession(on.PgConn()); err != nil {
		return fail(err), -1
	}
	return b.commit(on, t, part, entries, started), -1
}

// limitOf returns the shortest recordLimit of a part's calls, 0 if none has one.
func limitOf(part []*call) (limit time.Duration) {
	for _, c := range part {
		if l := c.recordLimit(); l > 0 && (limit == 0 || l < limit) {
			limit = l
		}
	}
	return limit
}

// commit sends the records of a part and COMMIT.
func (b *parts) commit(on *wire.Conn, t *table.Table, part []*call, entries []*table.Entry, started time.Time) ending {
	records := make([]*table.Record, len(part))
	for i, c := range part {
		c.written = table.NewRecord(&c.Entry, table.Done, c.stmt.row)
		records[i] = &c.written
	}
	p := on.Pipeline()
	t.QueueRecords(p, entries, records, &started, limitOf(part))
	p.Queue(t.Commit)
	outcome, err := b.d.sendCommit(b.ctx, on.Conn(), p, func() { table.ReadRecords(p, entries, records) })
	switch outcome {
	case wire.Committed:
		return ending{kind: done}
	case wire.Unknown:
		return ending{kind: unknown, err: err}
	}
	wire.DropUnusable(b.ctx, on.Conn(), err)
	return fail(err)
}

// lookUp looks calls up in one round trip and returns those without a record. If it fails, the next
// attempt meets the same fault and reports it.
func (b *parts) lookUp(part []*call) (rest []*call) {
	if len(part) > 0 {
		entries := make([]*table.Entry, len(part))
		for i, c := range part {
			entries[i] = &c.Entry
		}
		_ = b.d.onConn(b.ctx, func(on *wire.Conn) error {
			return b.d.table().LookUpAll(b.ctx, on, entries, func(n int, s *table.Seen) {
				part[n].seen = *s
				part[n].useLookUp()
			})
		})
	}
	for _, c := range part {
		if c.rec == nil {
			rest = append(rest, c)
		}
	}
	return rest
}
