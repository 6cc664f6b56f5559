package dedup

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// chunk is the calls of a batch that are sent together.
type chunk struct {
	entries []*entry
	// replays tells that the chunk before held calls that had been made before:
	// then it is worth to look before anything is run.
	replays bool
}

// entry is one call of a chunk. Its end is a record in s, or err.
type entry struct {
	c   *doCall // nil where err refuses the call as such
	s   settled
	err error
	// first is an earlier entry with the same identity, if there is one.
	first *entry
}

func (ch *chunk) add(c *doCall, err error) { ch.entries = append(ch.entries, &entry{c: c, err: err}) }

func (ch *chunk) clear() { ch.entries = ch.entries[:0] }

// maxSplits is how often a chunk is tried again without a call that made it fail,
// before its calls go one by one.
const maxSplits = 3

// run settles every entry: most of them together, and one by one those that
// cannot be.
func (ch *chunk) run(ctx context.Context, d *Deduper) {
	together, alone := ch.split()
	if ch.replays || slices.ContainsFunc(together, func(e *entry) bool { return e.c.req.lookFirst }) {
		ch.replays = false
		together = ch.lookUp(ctx, d, together)
	}
	for range maxSplits + 1 {
		if len(together) == 0 {
			break
		}
		bad, what := d.attemptChunk(ctx, together)
		if what == commitDone {
			together = nil
		}
		if what != commitNever || bad == nil {
			break
		}
		// Most likely it was made before, and then others were as well.
		together = ch.lookUp(ctx, d, together)
		if i := slices.Index(together, bad); i >= 0 {
			together = slices.Delete(together, i, i+1)
			alone = append(alone, bad)
		}
	}
	for _, e := range append(together, alone...) {
		e.runAlone(ctx)
	}
}

// split returns the entries that are to go together, sorted by identity so that
// two batches do not wait for each other crosswise, and those whose identity has
// come before, which come after it.
func (ch *chunk) split() (together, twins []*entry) {
	first := make(map[identity]*entry, len(ch.entries))
	for _, e := range ch.entries {
		switch {
		case e.err != nil:
		case first[e.c.req.identity] != nil:
			e.first = first[e.c.req.identity]
			twins = append(twins, e)
		default:
			first[e.c.req.identity] = e
			together = append(together, e)
		}
	}
	slices.SortFunc(together, func(a, b *entry) int { return a.c.req.identity.compare(b.c.req.identity) })
	return together, twins
}

func (id identity) compare(other identity) int {
	return cmp.Or(strings.Compare(id.scope, other.scope), strings.Compare(id.tool, other.tool), strings.Compare(id.key, other.key))
}

// runAlone settles an entry the way that DoStatement does.
func (e *entry) runAlone(ctx context.Context) {
	if e.first != nil && e.first.err == nil {
		e.find(e.first.s.rec)
		return
	}
	e.s, e.err = e.c.do(ctx)
}

// find settles an entry with a record that was there.
func (e *entry) find(rec record) {
	_, _ = e.c.found(rec)
	e.s = e.c.given()
}

// lookUp settles the entries that have a record and returns the others. Where it
// fails, whatever comes next meets the same fault and says so.
func (ch *chunk) lookUp(ctx context.Context, d *Deduper, entries []*entry) []*entry {
	conn, err := d.acquire(ctx)
	if err != nil {
		return entries
	}
	defer d.release(ctx, conn)
	if err := d.lookUpAll(ctx, lineOf(conn.Conn()), entries); err != nil {
		dropSpoiled(ctx, conn.Conn(), err)
	}
	rest := slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool { return e.s.rec.outcome != "" })
	ch.replays = ch.replays || len(rest) < len(entries)
	return rest
}

// attemptChunk runs entries as one pipeline that is one transaction. It settles
// all of them, or none: then bad is the one that made it fail, where that is
// known.
func (d *Deduper) attemptChunk(ctx context.Context, entries []*entry) (bad *entry, what commitOutcome) {
	start := time.Now()
	pooled, err := d.acquire(ctx)
	if err != nil {
		return nil, commitNever
	}
	defer d.release(ctx, pooled)
	conn := pooled.Conn()
	if d.trustArbiter(ctx, conn) != nil || !d.writesWhole(conn) || ctx.Err() != nil {
		return nil, commitNever
	}
	p, bad, err := d.queueChunk(ctx, lineOf(conn), entries)
	if err != nil {
		dropSpoiled(ctx, conn, err)
		return bad, commitNever
	}
	a := p.send(ctx)
	records, bad, err := readChunk(a, entries)
	err = a.close(err)
	what = classifyWhole(conn.PgConn(), err)
	for i, e := range entries {
		e.c.s.attempts++
		switch what {
		case commitDone:
			e.execute(ctx, records[i], time.Since(start))
		case commitUnknown:
			e.c.unknown, e.c.adrift = err, true
		case commitNever:
			e.c.sentWhole = e == bad // the next attempt is to tell why
		}
	}
	dropSpoiled(ctx, conn, err)
	return bad, what
}

// queueChunk queues the statements of all entries. The entry that it returns with
// an error is the one whose arguments cannot be sent.
func (d *Deduper) queueChunk(ctx context.Context, on *line, entries []*entry) (*pipeline, *entry, error) {
	var queries []query
	known := make(map[string]bool)
	for _, e := range entries {
		if q := e.c.sql.withRecord; !known[q.name] {
			known[q.name] = true
			queries = append(queries, q)
		}
	}
	if err := on.prepare(ctx, queries...); err != nil {
		return nil, nil, err
	}
	p := on.callersPipeline()
	for i, e := range entries {
		args := e.c.sql.recordArgs(e.c.req, &d.opts, i < maxLocksPerTx)
		if err := p.queueArgs(e.c.sql.withRecord, args); err != nil {
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
		if err := rec.readWritten(a); err != nil && err != errSwallowed {
			return records, e, err
		}
		records = append(records, rec)
	}
	return records, nil, nil
}

// execute settles an entry whose effect is committed.
func (e *entry) execute(ctx context.Context, rec record, took time.Duration) {
	if rec.createdAt.IsZero() {
		e.c.d.trusted.Store(false)
		e.err = e.c.d.recordBroken(ctx, e.c.req, errSwallowed, nil)
		return
	}
	e.c.s.rec, e.c.s.executed, e.c.s.took = rec, true, took
	e.s = e.c.s
}

// lookUpAll settles the entries that have a record, in one round trip.
func (d *Deduper) lookUpAll(ctx context.Context, on *line, entries []*entry) error {
	if err := on.prepare(ctx, d.sql.lookupAll); err != nil {
		return err
	}
	p := on.callersPipeline()
	if err := p.queueArgs(d.sql.lookupAll, idArrays(entries)); err != nil {
		return err
	}
	a := p.send(ctx)
	return a.close(readAll(a, entries))
}

// readAll reads the answer of statements.lookupAll.
func readAll(a *answers, entries []*entry) error {
	var i int64
	row := &a.row
	return a.each(append([]any{&i}, row.dest()...), func() error {
		var rec record
		if err := rec.fill(row); err != nil {
			return err
		}
		row.fingerprint, row.argDigests, row.result = nil, nil, nil
		if !rec.forgotten() {
			entries[i-1].find(rec)
		}
		return nil
	})
}

// idArrays are the arguments of a statement on many identities.
func idArrays(entries []*entry) []any {
	var scopes, tools, keys []string
	for _, e := range entries {
		id := &e.c.req.identity
		scopes, tools, keys = append(scopes, id.scope), append(tools, id.tool), append(keys, id.key)
	}
	return []any{scopes, tools, keys}
}
