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

// settled tells that the entry has come to an end.
func (e *entry) settled() bool { return e.err != nil || e.s.rec.outcome != "" }

func unsettled(entries []*entry) []*entry {
	return slices.DeleteFunc(slices.Clone(entries), (*entry).settled)
}

func (e *entry) looksFirst() bool { return e.c.looksFirst() }

func (e *entry) strays() bool { return !e.c.outlivesStrays() }

// run settles every entry: most of them together, and one by one those that
// cannot be.
func (ch *chunk) run(ctx context.Context, d *Deduper) {
	together, twins := ch.split()
	if ch.replays || slices.ContainsFunc(together, (*entry).looksFirst) {
		ch.replays = false
		together = ch.lookUp(ctx, d, together)
	}
	for _, e := range ch.runTogether(ctx, d, together) {
		e.runAlone(ctx)
	}
	for _, e := range twins {
		e.runAlone(ctx)
	}
}

// minSplits is how many calls may spoil an attempt before what is left of a
// chunk goes one by one. In a large chunk it may be a quarter of the calls.
const minSplits = 3

// runTogether settles entries in as few transactions as it takes, and returns
// those that are to go alone. Where an entry makes a transaction fail, those
// before it have proved to go through, and those behind it have not been tried:
// each is a transaction of its own, so that all in all no statement runs more
// than twice here, but for races.
func (ch *chunk) runTogether(ctx context.Context, d *Deduper, entries []*entry) (alone []*entry) {
	splits := max(minSplits, len(entries)/4)
	// Each has its lock: without, a twin would be waited for inside Postgres, for
	// as long as its transaction goes on.
	for parts := slices.Collect(slices.Chunk(entries, maxLocksPerTx)); len(parts) > 0; {
		part := parts[len(parts)-1]
		parts = parts[:len(parts)-1]
		if len(part) < 2 || splits < 0 {
			alone = append(alone, part...)
			continue
		}
		a := d.attemptChunk(ctx, part)
		alone = append(alone, a.alone...)
		part = slices.DeleteFunc(unsettled(part), func(e *entry) bool { return slices.Contains(a.alone, e) })
		if len(part) == 0 {
			continue
		}
		splits--
		if a.seen { // and then others were most likely made before as well
			ch.lookUp(ctx, d, part)
		}
		at := len(part) / 2 // where nobody knows whose fault it was
		behind := at
		if i := slices.Index(part, a.bad); i >= 0 {
			at, behind = i, i+1
			if !a.bad.settled() {
				alone = append(alone, a.bad)
			}
		}
		parts = append(parts, unsettled(part[behind:]), unsettled(part[:at]))
	}
	return alone
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
		e.follow()
		return
	}
	e.s, e.err = e.c.do(ctx)
}

// follow settles an entry whose first has come to an end.
func (e *entry) follow() {
	if e.err = e.first.err; e.err == nil {
		e.find(e.first.s.rec)
	}
}

// find settles an entry with a record that was there.
func (e *entry) find(rec record) {
	_, _ = e.c.found(rec)
	e.s = e.c.given()
}

// lookUp settles the entries that have a record and returns the others. Where it
// fails, whatever comes next meets the same fault and says so.
func (ch *chunk) lookUp(ctx context.Context, d *Deduper, entries []*entry) []*entry {
	if len(entries) == 0 {
		return nil
	}
	conn, err := d.acquire(ctx)
	if err != nil {
		return entries
	}
	defer d.release(ctx, conn)
	if err := d.lookUpAll(ctx, lineOf(conn.Conn()), entries); err != nil {
		dropSpoiled(ctx, conn.Conn(), err)
	}
	rest := unsettled(entries)
	ch.replays = ch.replays || len(rest) < len(entries)
	return rest
}

// execute settles an entry whose effect is committed.
func (e *entry) execute(ctx context.Context, rec record, took time.Duration) {
	if rec.createdAt.IsZero() {
		e.c.d.distrust()
		e.err = e.c.d.recordBroken(ctx, e.c.req, errSwallowed, nil)
		return
	}
	e.c.s.rec, e.c.s.executed, e.c.s.took = rec, true, took
	e.s = e.c.given()
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
	_, err := readAll(a, entries)
	return a.close(err)
}

// readAll reads the answer of statements.lookupAll, settles the entries that have
// a record and returns those whose record may be forgotten.
func readAll(a *answers, entries []*entry) (forgotten []*entry, err error) {
	var i int64
	row := &a.row
	err = a.each(append([]any{&i}, row.dest()...), func() error {
		var rec record
		if err := rec.fill(row); err != nil {
			return err
		}
		row.fingerprint, row.argDigests, row.result = nil, nil, nil
		if rec.forgotten() {
			forgotten = append(forgotten, entries[i-1])
		} else {
			entries[i-1].find(rec)
		}
		return nil
	})
	return forgotten, err
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
