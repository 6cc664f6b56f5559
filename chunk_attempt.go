package dedup

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// chunkAttempt is what is left to do after an attempt. Beside alone, either all
// entries are settled or none of them is, and bad is the one that spoiled it,
// where that is known.
type chunkAttempt struct {
	alone []*entry
	bad   *entry
	// seen tells that bad was most likely made before, or is in flight.
	seen bool
	// ran are those whose effects are committed, records what was written of them.
	ran     []*entry
	records []record
}

// attemptChunk makes one transaction of entries.
func (d *Deduper) attemptChunk(ctx context.Context, entries []*entry) chunkAttempt {
	start := time.Now()
	a := d.attemptChunkOn(ctx, entries, start)
	// Without the connection: a swallowed record takes one to be blocked.
	for i, e := range a.ran {
		e.execute(ctx, a.records[i], time.Since(start))
	}
	return a
}

func (d *Deduper) attemptChunkOn(ctx context.Context, entries []*entry, start time.Time) chunkAttempt {
	nothing := chunkAttempt{alone: entries}
	pooled, err := d.acquire(ctx)
	if err != nil {
		return nothing
	}
	defer d.release(ctx, pooled)
	conn := pooled.Conn()
	switch {
	case d.trustArbiter(ctx, conn) != nil, ctx.Err() != nil:
		return nothing
	case d.writesWhole(conn) && !slices.ContainsFunc(entries, (*entry).strays):
		return d.attemptChunkWhole(ctx, conn, entries, start)
	default:
		return d.attemptChunkApart(ctx, conn, entries, start)
	}
}

// attemptChunkWhole sends effects and records together, as one pipeline.
func (d *Deduper) attemptChunkWhole(ctx context.Context, conn *pgx.Conn, entries []*entry, start time.Time) chunkAttempt {
	p, bad, err := d.queueChunk(ctx, lineOf(conn), entries)
	if err != nil {
		dropSpoiled(ctx, conn, err)
		return spoiledBy(bad, err, entries)
	}
	a := p.send(ctx)
	records, bad, err := readChunk(a, entries)
	err = a.close(err)
	for _, e := range entries {
		e.c.s.attempts++
	}
	switch classifyWhole(conn.PgConn(), err) {
	case commitDone:
		return chunkAttempt{ran: entries, records: records}
	case commitUnknown:
		for _, e := range entries {
			e.c.lose(err, start)
			e.c.adrift = true
		}
		return chunkAttempt{alone: entries}
	}
	dropSpoiled(ctx, conn, err)
	if isUnsent(err) {
		bad = nil // pgx does not tell whose it is
	}
	if bad != nil {
		bad.c.sentWhole = true // the next attempt is to tell why
		lineOf(conn).outdateAfter(bad.c.sql.withRecord, err)
	}
	return spoiledBy(bad, err, entries)
}

// spoiledBy is what is left after an attempt that certainly came to nothing. What
// is nobody's fault, such as a lost connection or a COMMIT that failed, each entry
// finds out for itself.
func spoiledBy(bad *entry, err error, entries []*entry) chunkAttempt {
	if bad == nil && !isUnsent(err) {
		return chunkAttempt{alone: entries}
	}
	state := sqlState(err)
	return chunkAttempt{bad: bad, seen: state == codeInvalidText || state == codeUniqueViolation}
}

// attemptChunkApart runs the effects and writes the records as statements of
// their own, where they cannot be one.
func (d *Deduper) attemptChunkApart(ctx context.Context, conn *pgx.Conn, entries []*entry, start time.Time) chunkAttempt {
	j := d.newJointTx(conn, entries)
	busy, err := j.open(ctx, len(entries))
	if err != nil {
		dropSpoiled(ctx, conn, err)
		return chunkAttempt{alone: unsettled(entries)}
	}
	j.leaveOut(busy)
	if len(j.entries) == 0 {
		return chunkAttempt{alone: busy}
	}
	for _, e := range j.entries {
		e.c.s.attempts++
	}
	f := j.perform(ctx)
	what := commitNever
	var records []record
	if f == nil {
		if ctx.Err() != nil || checkSession(conn.PgConn()) != nil {
			return chunkAttempt{alone: unsettled(entries)}
		}
		records, what, f = j.commit(ctx)
	}
	switch {
	case what == commitDone:
		return chunkAttempt{alone: busy, ran: j.entries, records: records}
	case what == commitUnknown:
		for _, e := range j.entries {
			e.c.lose(f.err, start)
			e.c.adrift = !j.locked[e]
		}
		return chunkAttempt{alone: append(busy, j.entries...)}
	case f.unplaced:
		return chunkAttempt{alone: busy}
	}
	dropSpoiled(ctx, conn, f.err)
	if f.entry == nil {
		return chunkAttempt{alone: append(busy, j.entries...)}
	}
	return chunkAttempt{alone: busy, bad: f.entry}
}

// queueChunk queues the statements of all entries. The entry that it returns with
// an error is the one whose text or arguments the server or pgx refuses.
func (d *Deduper) queueChunk(ctx context.Context, on *line, entries []*entry) (*pipeline, *entry, error) {
	queries := make([]query, len(entries))
	for i, e := range entries {
		queries[i] = e.c.sql.withRecord
	}
	if err := on.prepare(ctx, distinct(queries)...); err != nil {
		bad := slices.IndexFunc(entries, func(e *entry) bool { return on.prepared[e.c.sql.withRecord.name] == nil })
		if bad < 0 || !isPlainError(err) {
			return nil, nil, err
		}
		return nil, entries[bad], err
	}
	p := on.callersPipeline()
	for _, e := range entries {
		if err := p.queueWhole(e.c.sql.withRecord, e.c.sql, e.c.req); err != nil {
			on.outdate(e.c.sql.withRecord)
			return nil, e, err
		}
	}
	return p, nil, nil
}

// readChunk reads the records that were written. One that was swallowed has no
// time; everything behind an error is missing.
func readChunk(a *answers, entries []*entry) (records []record, bad *entry, err error) {
	for _, e := range entries {
		rec := newRecord(e.c.req)
		if err := rec.readWritten(a, e.c.req); err != nil && err != errSwallowed {
			return records, e, err
		}
		records = append(records, rec)
	}
	return records, nil, nil
}
