package table

import (
	"context"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// The order ClaimFirst: an attempt inserts the identity before the effect and completes
// the row with the COMMIT. A twin's claim makes the insert wait inside Postgres, so it is
// sent with a short lock_timeout and given up as busy.
//
// The claim is ON CONFLICT DO NOTHING, which looks before it writes: a twin
// leaves no dead row behind. That is safe here, and only here, because no
// COMMIT travels with it.

func (t *Table) openClaim(ctx context.Context, on *wire.Conn, begin *wire.Begin, e *Entry) (Opening, error) {
	p := on.Pipeline()
	p.QueueBegin(begin)
	p.Queue(t.setUp)
	readClaim := t.queueClaim(p, e, RowTimeout)
	results := p.Send(ctx)
	return t.readClaimed(ctx, on, results, e, RowTimeout, Opening{Tx: results.Tx()}, readClaim)
}

func (t *Table) openClaimIn(ctx context.Context, on *wire.Conn, savepoint wire.Query, e *Entry, limit time.Duration) (Opening, error) {
	p := on.Pipeline()
	p.Queue(savepoint)
	p.Queue(t.join)
	readClaim := t.queueClaim(p, e, limit)
	return t.readClaimed(ctx, on, p.Send(ctx), e, limit, Opening{}, readClaim)
}

// readClaimed takes the answers of BEGIN or SAVEPOINT, of the statement that names the
// transaction, and of the claim.
func (t *Table) readClaimed(ctx context.Context, on *wire.Conn, results *wire.Results, e *Entry, limit time.Duration, open Opening, readClaim readClaim) (Opening, error) {
	_, err := results.Exec()
	if err == nil {
		open.Marked = true
		err = results.Scan(nil, &results.Room.Times[0], nil)
		open.Started = results.Room.Times[0]
	}
	if err == nil {
		err = readClaim(results, &open)
	}
	if err = results.Close(err); err == nil && open.Forgotten {
		old := open.Record
		err = t.replaceForgotten(ctx, on, e, &open, limit)
		if !open.Found { // what was there is still what was seen
			open.Record, open.Forgotten = old, true
		}
	}
	open.Locked = err == nil
	return busyIfLocked(open, err)
}

// readClaim reads the answers of what queueClaim queued.
type readClaim func(results *wire.Results, open *Opening) error

// queueClaim queues the claim and a look-up that sees whatever stood in its way.
func (t *Table) queueClaim(p *wire.Pipeline, e *Entry, limit time.Duration) readClaim {
	read := t.queueLimited(p, limit, t.claim,
		wire.Text(e.Scope), wire.Text(e.Tool), wire.Text(e.Key), wire.Bytes(e.Fingerprint[:]), wire.Bytes(e.ArgDigests),
		wire.Age(e.Keep), wire.Age(e.Forget))
	p.Queue(t.lookUp, e.params()...)
	return func(results *wire.Results, open *Opening) error {
		var claimed bool
		err := read(results, func() error {
			tag, err := results.Exec()
			claimed = tag.RowsAffected() == 1
			return err
		})
		if err == nil {
			err = open.see(results)
		}
		if claimed { // and what the look-up saw is the claim itself
			open.Lookup = Lookup{}
		}
		open.Hidden = !claimed && !open.Found
		return err
	}
}

// replaceForgotten deletes a record that may be forgotten and claims its
// identity anew. A record that comes back meanwhile, as old as before, counts as
// hidden.
func (t *Table) replaceForgotten(ctx context.Context, on *wire.Conn, e *Entry, open *Opening, limit time.Duration) error {
	p := on.Pipeline()
	read := t.queueLimited(p, limit, t.forget, e.params()...)
	readClaim := t.queueClaim(p, e, limit)
	results := p.Send(ctx)
	err := read(results, func() error { _, err := results.Exec(); return err })
	if err == nil {
		err = readClaim(results, open)
	}
	return results.Close(err)
}

// busyIfLocked turns a lock_timeout into the answer that it stands for.
func busyIfLocked(open Opening, err error) (Opening, error) {
	if wire.SQLState(err) == wire.CodeLockNotAvailable {
		open.Lookup = Lookup{Busy: true, Forgotten: open.Forgotten}
		return open, nil
	}
	return open, err
}
