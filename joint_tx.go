package dedup

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// jointTx is one transaction for the statements of many calls. Its steps are
// open, perform and commit, of one round trip each for as many calls as share a
// pipeline. Whoever has opened it rolls back what is not committed.
//
// Only the first maxLocksPerTx calls have their lock, and with ClaimFirst none
// has: claims would write every row twice. For the others the primary key
// decides alone, when the record is written.
type jointTx struct {
	d    *Deduper
	conn *pgx.Conn
	// entries are the calls to run, sorted by identity.
	entries []*entry
	// locked are those that have their lock, forgotten those with a record in
	// their way that may be forgotten.
	locked    map[*entry]bool
	forgotten []*entry
	// width is how many statements share a pipeline.
	width int
	// stopped tells that the locks behind one that is taken were not tried.
	stopped bool
	// started is now() in the transaction, which names it.
	started time.Time
	// results are the texts to record, in the order of entries.
	results []string
}

// jointWidth bounds how much is kept in memory for a pipeline.
const jointWidth = 500

func (d *Deduper) newJointTx(conn *pgx.Conn, entries []*entry) *jointTx {
	return &jointTx{d: d, conn: conn, entries: slices.Clone(entries), locked: make(map[*entry]bool), width: jointWidth}
}

// fault is what ended a joint transaction. None of it is committed.
type fault struct {
	failure
	// entry is the call that met it; nil where it is nobody's. raised tells that
	// its effect did, so that OnError is to be asked.
	entry  *entry
	raised bool
	// busy tells that a twin of entry is in the way.
	busy bool
	// unplaced tells that it is somebody's, and that smaller pipelines would
	// show whose.
	unplaced bool
}

// open begins, takes the locks and looks, in one pipeline. It settles the
// entries that have a record, and returns those with a twin in flight: no more
// than so many, and then the locks behind the last of them were not tried.
func (j *jointTx) open(ctx context.Context, most int) (busy []*entry, err error) {
	on, sql := lineOf(j.conn), j.d.sql
	if err := on.prepare(ctx, sql.begin.query, sql.prepare, sql.tryLocks, sql.lookupAll, sql.insert, sql.commit); err != nil {
		return nil, err
	}
	p := on.callersPipeline()
	p.queueBegin(&sql.begin)
	p.queue(sql.prepare)
	var wanted []int64
	if j.d.opts.Order == LockFirst {
		for _, e := range j.entries[:min(len(j.entries), maxLocksPerTx)] {
			wanted = append(wanted, e.c.req.lock)
		}
		if err := p.queueArgs(sql.tryLocks, []any{wanted, most}); err != nil {
			return nil, err
		}
	}
	if err := p.queueArgs(sql.lookupAll, idArrays(j.entries)); err != nil {
		return nil, err
	}
	a := p.send(ctx)
	return j.readOpening(a, len(wanted), most)
}

func (j *jointTx) readOpening(a *answers, locks, most int) (busy []*entry, err error) {
	_, err = a.exec()
	if err == nil {
		err = a.scan(nil, &j.started, nil)
	}
	if err == nil && j.d.opts.Order == LockFirst {
		var n int64
		err = a.each([]any{&n}, func() error {
			busy = append(busy, j.entries[n-1])
			if len(busy) == most {
				j.stopped, locks = true, int(n)
			}
			return nil
		})
	}
	if err == nil {
		j.forgotten, err = readAll(a, j.entries)
	}
	if err = a.close(err); err != nil {
		return nil, err
	}
	for _, e := range j.entries[:locks] {
		j.locked[e] = true
	}
	for _, e := range busy {
		delete(j.locked, e)
	}
	// A record that is found wins over a lock that is not.
	busy = slices.DeleteFunc(busy, (*entry).settled)
	j.entries = slices.DeleteFunc(j.entries, (*entry).settled)
	return busy, nil
}

// leaveOut goes on without some of the entries.
func (j *jointTx) leaveOut(entries []*entry) {
	out := func(e *entry) bool { return slices.Contains(entries, e) }
	j.entries = slices.DeleteFunc(j.entries, out)
	j.forgotten = slices.DeleteFunc(j.forgotten, out)
}

// perform makes room for the new records and runs the effects.
func (j *jointTx) perform(ctx context.Context) *fault {
	for part := range slices.Chunk(j.entries, j.width) {
		if f := j.performPart(ctx, part); f != nil {
			f.lost = j.conn.IsClosed()
			return f
		}
	}
	return nil
}

func (j *jointTx) performPart(ctx context.Context, part []*entry) *fault {
	on, sql := lineOf(j.conn), j.d.sql
	queries := make([]query, len(part))
	for i, e := range part {
		queries[i] = e.c.sql.effect
	}
	forgotten := j.forgotten
	j.forgotten = nil
	if forgotten != nil {
		queries = append(queries, sql.forgetAll)
	}
	if err := on.prepare(ctx, distinct(queries)...); err != nil {
		bad := slices.IndexFunc(part, func(e *entry) bool { return on.prepared[e.c.sql.effect.name] == nil })
		if bad < 0 || !isPlainError(err) {
			return &fault{failure: failure{err: err}}
		}
		return &fault{failure: failure{err: err}, entry: part[bad], raised: true}
	}

	p := on.callersPipeline()
	if forgotten != nil {
		sql.queueHurry(p, claimTimeout)
		if err := p.queueArgs(sql.forgetAll, idArrays(forgotten)); err != nil {
			return &fault{failure: failure{err: err}}
		}
		p.queue(sql.unhurry)
	}
	for _, e := range part {
		if err := p.queueArgs(e.c.sql.effect, e.c.sql.args); err != nil {
			on.outdate(e.c.sql.effect)
			return &fault{failure: failure{err: err}, entry: e, raised: true}
		}
	}
	a := p.send(ctx)
	f := j.readEffects(a, part, forgotten)
	if f == nil {
		if err := a.close(nil); err != nil {
			f = &fault{failure: failure{err: err}}
		}
		return f
	}
	f.err = a.close(f.err)
	if f.raised {
		on.outdate(f.entry.c.sql.effect)
	}
	if isUnsent(f.err) { // by pgx, which does not tell whose it is
		f.busy, f.unplaced = false, len(part) > 1
		f.entry, f.raised = part[0], true
	}
	return f
}

func (j *jointTx) readEffects(a *answers, part, forgotten []*entry) *fault {
	if forgotten != nil {
		for range 3 { // hurry, the DELETE, unhurry
			if _, err := a.exec(); err != nil {
				return &fault{failure: failure{err: err}, entry: forgotten[0], busy: sqlState(err) == codeLockNotAvailable && !j.locked[forgotten[0]]}
			}
		}
	}
	for _, e := range part {
		var rows int64
		var row *string
		err := a.scan(&rows, &row)
		if err = orElse(err, oneRow(rows)); err != nil {
			return &fault{failure: failure{err: err}, entry: e, raised: true}
		}
		if err := checkStorable([]byte(*row), j.d.opts.MaxResultBytes); err != nil {
			return &fault{failure: failure{err: err}, entry: e}
		}
		j.results = append(j.results, *row)
	}
	return nil
}

// commit writes the records and commits. The last pipeline carries the COMMIT,
// and runs on a context of its own as that of Do does. It returns the records in
// the order of entries; one that was swallowed has no times.
func (j *jointTx) commit(ctx context.Context) (records []record, what commitOutcome, f *fault) {
	for what = commitNever; len(records) < len(j.entries); {
		from := len(records)
		to := min(from+j.width, len(j.entries))
		if to == len(j.entries) {
			limitIO(j.conn, j.d.opts.CommitTimeout)
			defer unlimitIO(j.conn)
		}
		var part []record
		part, what, f = j.write(ctx, from, to)
		if f != nil {
			f.lost = j.conn.IsClosed()
			return nil, what, f
		}
		records = append(records, part...)
	}
	return records, what, nil
}

// write writes the records of some entries, and commits after the last one.
func (j *jointTx) write(ctx context.Context, from, to int) (records []record, what commitOutcome, f *fault) {
	entries, last := j.entries[from:to], to == len(j.entries)
	limit := j.recordLimit(entries)
	hurried := limit != 0

	p := lineOf(j.conn).pipeline()
	if hurried {
		j.d.sql.queueHurry(p, limit)
	}
	for i, e := range entries {
		p.queueWritten(j.d.sql.insert, e.c.req, j.started, outcomeDone, textParam(j.results[from+i]))
	}
	if hurried {
		p.queue(j.d.sql.unhurry)
	}
	if last {
		p.queue(j.d.sql.commit)
		ctx = p.uncancelled(ctx)
	}
	a := p.send(ctx)
	records, bad, err := j.readRecords(a, from, to, hurried)
	if last {
		what, err = a.finish(j.conn.PgConn(), err)
	} else {
		what, err = commitNever, a.close(err)
	}
	if err == nil {
		return records, what, nil
	}
	busy := hurried && bad != nil && sqlState(err) == codeLockNotAvailable
	if busy {
		bad.c.patience.waited += limit
	}
	return nil, what, &fault{failure: failure{err: err, atRecord: bad != nil}, entry: bad, busy: busy}
}

// recordLimit is how long writing a record may wait for a twin that does not hold
// the identity's lock: as long as the least patient call waits, and hardly at all for a
// call without its own lock, which may well have a twin. 0 is no limit.
func (j *jointTx) recordLimit(entries []*entry) (limit time.Duration) {
	for _, e := range entries {
		own := hurried(e.c.req.maxWait)
		if !j.locked[e] {
			own = claimTimeout
		}
		if own != 0 && (limit == 0 || own < limit) {
			limit = own
		}
	}
	return limit
}

func (j *jointTx) readRecords(a *answers, from, to int, hurried bool) (records []record, bad *entry, err error) {
	if hurried {
		if _, err := a.exec(); err != nil {
			return nil, nil, err
		}
	}
	for i := from; i < to; i++ {
		req := j.entries[i].c.req
		rec := newRecord(req)
		rec.result = j.results[i]
		switch err := readRecord(a, &rec, req, 0); err {
		case nil:
		case errSwallowed:
			rec.createdAt = time.Time{}
		default:
			return nil, j.entries[i], err
		}
		records = append(records, rec)
	}
	if hurried {
		_, err = a.exec()
	}
	return records, nil, err
}
