package dedup

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// order is how an attempt makes itself its identity's only one, and how it
// writes the record. There are two, lockFirst and claimFirst; the contract
// suite holds both to the same answers.
type order interface {
	// open begins a transaction on a connection and looks, in one pipeline. It returns
	// as soon as it is known whether the identity is free; whatever it returns,
	// the caller rolls the connection back unless it commits.
	open(ctx context.Context, on *line, req *request) (opening, error)

	// openIn is open inside the caller's transaction, behind the savepoint mark. For
	// req.maxWait it blocks inside Postgres until twins are done, where the
	// deadlock detector sees it. Busy leaves the transaction to be rolled back
	// to the savepoint.
	openIn(ctx context.Context, on *line, mark string, req *request) (opening, error)

	// queueRecord queues the statement that writes the record, to travel with
	// the COMMIT. It must raise when the record cannot be written, for then the
	// server skips the COMMIT.
	queueRecord(p *pipeline, req *request, open *opening, out outcome, result param)

	// peek looks outside a transaction, in one round trip. What it says of a
	// record is final; that the identity is free is a hint.
	peek(ctx context.Context, on *line, req *request) (sighting, error)

	// probe is peek for those who want to be told whether a twin is in flight
	// even where that costs more.
	probe(ctx context.Context, on *line, req *request) (sighting, error)
}

// opening is what an attempt found when it began.
type opening struct {
	sighting
	// tx is the transaction that open began; nil from openIn.
	tx pgx.Tx
	// started is now() in the transaction, which names it: the record is only
	// written in a transaction with the same.
	started time.Time
	// held is why a record that may be forgotten could not be deleted. Then busy is
	// true, although no twin is in flight.
	held error
	// marked tells that openIn has set its savepoint.
	marked bool
}

// sighting is what a look-up saw of an identity.
type sighting struct {
	// found is true when rec is a record that counts.
	found bool
	rec   record
	// busy is true when there is no record and a twin is in flight.
	busy bool
	// hidden is true when a claim met a row that no look-up finds: it was
	// deleted in between, or it cannot be seen at all.
	hidden bool
}

// look reads the record and nothing else, outside a transaction.
func (sql *statements) look(ctx context.Context, on *line, req *request) (sighting, error) {
	var s sighting
	if err := on.prepare(ctx, sql.usual...); err != nil {
		return s, err
	}
	p := on.pipeline()
	p.queueID(sql.lookup, &req.identity)
	a := p.send(ctx)
	_, err := s.see(a)
	return s, a.close(err)
}

// see fills in a sighting from a look-up. A record that may be forgotten does not
// count, and stands in the way until it is deleted.
func (s *sighting) see(a *answers) (forgotten bool, err error) {
	exists, err := s.rec.read(a)
	if err != nil || !exists {
		return false, err
	}
	forgotten = s.rec.forgotten()
	s.found = !forgotten
	return forgotten, nil
}

// queueHurried queues a statement that may wait for a twin for no longer than
// limit; 0 means for as long as the session allows. It returns how to read what
// it queued, given how to read the statement itself.
func (sql *statements) queueHurried(p *pipeline, limit time.Duration, st query, params ...param) func(a *answers, read func() error) error {
	if limit == 0 {
		p.queue(st, params...)
		return func(_ *answers, read func() error) error { return read() }
	}
	sql.queueHurry(p, limit)
	p.queue(st, params...)
	p.queue(sql.unhurry)
	return func(a *answers, read func() error) error {
		if _, err := a.exec(); err != nil {
			return err
		}
		if err := read(); err != nil {
			return err
		}
		_, err := a.exec()
		return err
	}
}

// queueHurry limits how long the statements wait that follow, until unhurry.
func (sql *statements) queueHurry(p *pipeline, limit time.Duration) {
	p.queue(sql.hurry, textParam(lockTimeout(limit)))
}

// lockTimeout is a limit as lock_timeout has it: an int32 of milliseconds, and 0
// is none.
func lockTimeout(limit time.Duration) string {
	return strconv.FormatInt(min(max(limit.Milliseconds(), 1), math.MaxInt32), 10)
}

// shorterTimeout is SQL for a lock_timeout of so many milliseconds, or of the session's
// own where that is shorter.
func shorterTimeout(ms, own string) string {
	return "CASE WHEN " + own + " <> '0' AND " + own + "::interval < " + ms + " * interval '1 millisecond' THEN " + own + " ELSE " + ms + "::text END"
}

// hurried is how long to wait inside Postgres for a call that may wait for max.
func hurried(max time.Duration) time.Duration {
	if max < 0 {
		return claimTimeout
	}
	return max
}

func newOrder(opts *Options, sql *statements) order {
	if opts.Order == ClaimFirst {
		return &claimFirst{sql: sql, begin: sql.begin}
	}
	return &lockFirst{sql: sql}
}

// queueWritten queues one of the statements that write a record.
func (p *pipeline) queueWritten(st query, req *request, started time.Time, out outcome, result param) {
	p.queue(st, textParam(req.scope), textParam(req.tool), textParam(req.key), timeParam(started),
		bytesParam(req.fingerprint[:]), bytesParam(req.argDigests), textParam(string(out)), result,
		ageParam(req.retention.keep()), ageParam(req.retention.forget()))
}

// queueID queues a statement whose parameters are an identity.
func (p *pipeline) queueID(st query, id *identity) { p.queue(st, id.idParams()...) }

func (id *identity) idParams() []param {
	return []param{textParam(id.scope), textParam(id.tool), textParam(id.key)}
}
