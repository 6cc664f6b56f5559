package table

import (
	"context"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// The order LockFirst: an attempt takes the identity's advisory lock, looks up, and
// inserts the record with the COMMIT. The lock spares a twin an effect that would be
// rolled back, and shows that a twin is in flight; the primary key is what decides.

func (t *Table) openLock(ctx context.Context, on *wire.Conn, e *Entry) (Opening, error) {
	var open Opening
	p := on.Pipeline()
	p.QueueBegin(&t.begin)
	p.Queue(t.lock, wire.Int(e.Lock))
	p.Queue(t.lookUp, e.params()...)
	results := p.Send(ctx)
	open.Tx = results.Tx()
	err := readLocked(results, &open)
	if err == nil && open.Forgotten && !open.Busy {
		if err = t.forgetRecord(ctx, on, e, RowTimeout); wire.SQLState(err) == wire.CodeLockNotAvailable {
			open.Busy, open.Held, err = true, err, nil
		}
	}
	return open, err
}

func (t *Table) openLockIn(ctx context.Context, on *wire.Conn, savepoint wire.Query, e *Entry, limit time.Duration) (Opening, error) {
	p := on.Pipeline()
	p.Queue(savepoint)
	p.Queue(t.lockCapped, wire.Int(e.Lock))
	p.Queue(t.lookUp, e.params()...)
	var open Opening
	err := readLocked(p.Send(ctx), &open)
	if err == nil && open.Busy {
		err = t.waitForLock(ctx, on, e, &open, limit)
	}
	if err == nil && open.Forgotten && !open.Busy {
		err = t.forgetRecord(ctx, on, e, limit)
	}
	return open, err
}

// readLocked takes the answers of BEGIN or SAVEPOINT, of the lock and of the look-up.
// A record that is found wins over a lock that is not: its transaction has ended.
func readLocked(results *wire.Results, open *Opening) error {
	room := &results.Room
	_, err := results.Exec()
	if err == nil {
		open.Marked = true
		err = results.Scan(&room.Bool, &room.Times[0], nil, &room.Int)
		open.Started = room.Times[0]
	}
	locked := room.Bool
	open.Locked = locked && room.Int <= MaxLocks
	if err == nil {
		err = open.see(results)
	}
	open.Busy = !locked && !open.Found
	return results.Close(err)
}

// waitForLock waits for the lock inside Postgres. The look-up is a statement of its
// own: its snapshot must be younger than the lock.
func (t *Table) waitForLock(ctx context.Context, on *wire.Conn, e *Entry, open *Opening, limit time.Duration) error {
	p := on.Pipeline()
	read := t.queueLimited(p, limit, t.lockWait, wire.Int(e.Lock))
	p.Queue(t.lookUp, e.params()...)
	results := p.Send(ctx)
	err := read(results, func() error { _, err := results.Exec(); return err })
	if err == nil {
		open.Busy, open.Locked = false, true
		err = open.see(results)
	}
	if err = results.Close(err); wire.SQLState(err) == wire.CodeLockNotAvailable {
		return nil // still busy
	}
	return err
}

// forgetRecord makes room for a new record before the effect is run, so that somebody
// who holds the old row is met before it and not after. That is no twin, which
// would hold the lock, but a sweep or a reset.
func (t *Table) forgetRecord(ctx context.Context, on *wire.Conn, e *Entry, limit time.Duration) error {
	p := on.Pipeline()
	read := t.queueLimited(p, limit, t.forget, e.params()...)
	results := p.Send(ctx)
	err := read(results, func() error { _, err := results.Exec(); return err })
	return results.Close(err)
}
