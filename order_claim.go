package dedup

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// claimFirst inserts the identity before the effect and completes the row with
// the COMMIT. A twin's claim makes the insert wait inside Postgres, so it is
// sent with a short lock_timeout and given up as busy.
//
// The claim is ON CONFLICT DO NOTHING, which looks before it writes: a twin
// leaves no dead row behind. That is safe here, and only here, because no
// COMMIT travels with it.
type claimFirst struct {
	sql   *statements
	begin begin
}

func (o *claimFirst) open(ctx context.Context, on *line, req *request) (opening, error) {
	var open opening
	if err := on.prepare(ctx, o.sql.usual...); err != nil {
		return open, err
	}
	p := on.pipeline()
	p.queueBegin(&o.begin)
	p.queue(o.sql.prepare)
	readClaim := o.queueClaim(p, req, claimTimeout)
	a := p.send(ctx)
	open.tx = a.tx()
	return o.read(ctx, on, a, req, claimTimeout, open, readClaim)
}

func (o *claimFirst) openIn(ctx context.Context, on *line, mark string, req *request) (opening, error) {
	limit := hurried(req.maxWait)
	p := on.pipeline()
	p.queue(query{text: "savepoint " + mark})
	p.queue(o.sql.join)
	readClaim := o.queueClaim(p, req, limit)
	return o.read(ctx, on, p.send(ctx), req, limit, opening{}, readClaim)
}

// read takes the answers of BEGIN or SAVEPOINT, of the statement that names the
// transaction, and of the claim.
func (o *claimFirst) read(ctx context.Context, on *line, a *answers, req *request, limit time.Duration, open opening, readClaim readClaim) (opening, error) {
	var forgotten bool
	_, err := a.exec()
	if err == nil {
		open.marked = true
		err = a.scan(nil, &a.row.times[0], nil)
		open.started = a.row.times[0]
	}
	if err == nil {
		forgotten, err = readClaim(a, &open)
	}
	if err = a.close(err); err == nil && forgotten {
		old := open.rec
		err = o.replaceForgotten(ctx, on, req, &open, limit)
		if !open.found { // what was there is still what was seen
			open.rec = old
		}
	}
	return busyIfLocked(open, err)
}

// readClaim reads the answers of what queueClaim queued.
type readClaim func(a *answers, open *opening) (forgotten bool, err error)

// queueClaim queues the claim and a look-up that sees whatever stood in its way.
func (o *claimFirst) queueClaim(p *pipeline, req *request, limit time.Duration) readClaim {
	readHurried := o.sql.queueHurried(p, limit, o.sql.claim,
		textParam(req.scope), textParam(req.tool), textParam(req.key), bytesParam(req.fingerprint[:]), bytesParam(req.argDigests),
		ageParam(req.retention.keep()), ageParam(req.retention.forget()))
	p.queueID(o.sql.lookup, &req.identity)
	return func(a *answers, open *opening) (forgotten bool, err error) {
		var claimed bool
		err = readHurried(a, func() error {
			tag, err := a.exec()
			claimed = tag.RowsAffected() == 1
			return err
		})
		if err == nil {
			forgotten, err = open.see(a)
		}
		if claimed { // and what the look-up saw is the claim itself
			open.sighting, forgotten = sighting{}, false
		}
		open.hidden = !claimed && !open.found
		return forgotten, err
	}
}

// replaceForgotten deletes a record that may be forgotten and claims its
// identity anew. A record that comes back meanwhile, as old as before, counts as
// hidden.
func (o *claimFirst) replaceForgotten(ctx context.Context, on *line, req *request, open *opening, limit time.Duration) error {
	p := on.pipeline()
	readHurried := o.sql.queueHurried(p, limit, o.sql.forget, req.idParams()...)
	readClaim := o.queueClaim(p, req, limit)
	a := p.send(ctx)
	err := readHurried(a, func() error { _, err := a.exec(); return err })
	if err == nil {
		_, err = readClaim(a, open)
	}
	return a.close(err)
}

func (o *claimFirst) queueRecord(p *pipeline, req *request, open *opening, out outcome, result param) {
	p.queueWritten(o.sql.complete, req, open.started, out, result)
}

// peek cannot see a claim; a twin in flight looks free, and the attempt that
// follows finds it busy.
func (o *claimFirst) peek(ctx context.Context, on *line, req *request) (sighting, error) {
	return o.sql.look(ctx, on, req)
}

// probe claims and leaves the transaction to be rolled back: the only way to
// see a claim.
func (o *claimFirst) probe(ctx context.Context, on *line, req *request) (sighting, error) {
	open, err := (&claimFirst{sql: o.sql, begin: newBegin(pgx.ReadCommitted)}).open(ctx, on, req)
	return open.sighting, err
}

// busyIfLocked turns a lock_timeout into the answer that it stands for.
func busyIfLocked(open opening, err error) (opening, error) {
	if sqlState(err) == codeLockNotAvailable {
		open.sighting = sighting{busy: true}
		return open, nil
	}
	return open, err
}
