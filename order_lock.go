package dedup

import (
	"context"
	"time"
)

// lockFirst takes the identity's advisory lock, looks up, and inserts the
// record with the COMMIT. The lock spares twins an effect in vain and shows
// that one is in flight; the primary key is what decides.
type lockFirst struct {
	sql *statements
}

func (o *lockFirst) open(ctx context.Context, on *line, req *request) (opening, error) {
	var open opening
	if err := on.prepare(ctx, o.sql.usual...); err != nil {
		return open, err
	}
	p := on.pipeline()
	p.queueBegin(&o.sql.begin)
	p.queue(o.sql.lock, intParam(req.lock))
	p.queueID(o.sql.lookup, &req.identity)
	a := p.send(ctx)
	open.tx = a.tx()
	forgotten, err := o.read(a, &open)
	if err == nil && forgotten && !open.busy {
		if err = o.forget(ctx, on, req, claimTimeout); sqlState(err) == codeLockNotAvailable {
			open.busy, open.held, err = true, err, nil
		}
	}
	return open, err
}

func (o *lockFirst) openIn(ctx context.Context, on *line, mark string, req *request) (opening, error) {
	p := on.pipeline()
	p.queue(query{text: "savepoint " + mark})
	p.queue(o.sql.lockCapped, intParam(req.lock))
	p.queueID(o.sql.lookup, &req.identity)
	var open opening
	forgotten, err := o.read(p.send(ctx), &open)
	if err == nil && open.busy {
		forgotten, err = o.await(ctx, on, req, &open)
	}
	if err == nil && forgotten && !open.busy {
		err = o.forget(ctx, on, req, hurried(req.maxWait))
	}
	return open, err
}

// read takes the answers of BEGIN or SAVEPOINT, of the lock and of the look-up.
// A record that is found wins over a lock that is not: its transaction has ended.
func (o *lockFirst) read(a *answers, open *opening) (forgotten bool, err error) {
	if _, err = a.exec(); err == nil {
		open.marked = true
		err = a.scan(&a.row.locked, &a.row.times[0], nil)
		open.started = a.row.times[0]
	}
	if err == nil {
		forgotten, err = open.see(a)
	}
	open.busy = !a.row.locked && !open.found
	return forgotten, a.close(err)
}

// await waits for the lock inside Postgres. The look-up is a statement of its
// own: its snapshot must be younger than the lock.
func (o *lockFirst) await(ctx context.Context, on *line, req *request, open *opening) (forgotten bool, err error) {
	p := on.pipeline()
	readHurried := o.sql.queueHurried(p, hurried(req.maxWait), o.sql.lockWait, intParam(req.lock))
	p.queueID(o.sql.lookup, &req.identity)
	a := p.send(ctx)
	err = readHurried(a, func() error { _, err := a.exec(); return err })
	if err == nil {
		open.busy = false
		forgotten, err = open.see(a)
	}
	if err = a.close(err); sqlState(err) == codeLockNotAvailable { // still busy
		err = nil
	}
	return forgotten, err
}

// forget makes room for a new record before the effect is run, so that somebody
// who holds the old row is met before it and not after. That is no twin, which
// would hold the lock, but a sweep or a reset.
func (o *lockFirst) forget(ctx context.Context, on *line, req *request, limit time.Duration) error {
	p := on.pipeline()
	readHurried := o.sql.queueHurried(p, limit, o.sql.forget, req.idParams()...)
	a := p.send(ctx)
	err := readHurried(a, func() error { _, err := a.exec(); return err })
	return a.close(err)
}

func (o *lockFirst) queueRecord(p *pipeline, req *request, open *opening, out outcome, result param) {
	p.queueWritten(o.sql.insert, req, open.started, out, result)
}

func (o *lockFirst) peek(ctx context.Context, on *line, req *request) (sighting, error) {
	var s sighting
	if err := on.prepare(ctx, o.sql.usual...); err != nil {
		return s, err
	}
	p := on.pipeline()
	p.queueBegin(&o.sql.peekBegin)
	p.queue(o.sql.peekLock, intParam(req.lock))
	p.queueID(o.sql.lookup, &req.identity)
	p.queue(o.sql.rollback)
	a := p.send(ctx)
	_, err := a.exec()
	if err == nil {
		err = a.scan(&a.row.locked)
	}
	if err == nil {
		_, err = s.see(a)
	}
	if err == nil {
		_, err = a.exec()
	}
	s.busy = !a.row.locked && !s.found
	return s, a.close(err)
}

func (o *lockFirst) probe(ctx context.Context, on *line, req *request) (sighting, error) {
	return o.peek(ctx, on, req)
}
