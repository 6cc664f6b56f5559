package table

import (
	"context"

	"github.com/tooldedup/dedup/internal/wire"
)

// LookUp reads the record and nothing else, outside a transaction.
func (t *Table) LookUp(ctx context.Context, on *wire.Conn, id *Identity) (Lookup, error) {
	var l Lookup
	if err := on.Prepare(ctx, t.usual...); err != nil {
		return l, err
	}
	p := on.Pipeline()
	p.Queue(t.primary)
	p.Queue(t.lookUp, id.params()...)
	results := p.Send(ctx)
	_, err := results.Exec()
	if err == nil {
		err = l.see(results)
	}
	return l, results.Close(err)
}

// Peek looks outside a transaction, in one round trip. What it says of a record is final;
// that the identity is free is a hint. With ClaimFirst a claim cannot be seen: a twin in
// flight looks free, and the attempt that follows finds it busy.
//
// The look-up's snapshot is younger than the lock, whatever isolation level is the
// session's default.
func (t *Table) Peek(ctx context.Context, on *wire.Conn, e *Entry) (Lookup, error) {
	if t.opts.ClaimFirst {
		return t.LookUp(ctx, on, &e.Identity)
	}
	var l Lookup
	if err := on.Prepare(ctx, t.usual...); err != nil {
		return l, err
	}
	p := on.Pipeline()
	p.QueueBegin(&t.lookBegin)
	p.Queue(t.lockLook, wire.Int(e.Lock))
	p.Queue(t.lookUp, e.params()...)
	p.Queue(t.rollback)
	results := p.Send(ctx)
	_, err := results.Exec()
	if err == nil {
		err = results.Scan(&results.Room.Bool, &results.Room.Times[0])
		l.At = results.Room.Times[0]
	}
	locked := results.Room.Bool
	if err == nil {
		err = l.see(results)
	}
	if err == nil {
		_, err = results.Exec()
	}
	l.Busy = !locked && !l.Found
	return l, results.Close(err)
}

// PeekSeesTwins reports whether Peek sees a twin in flight.
func (t *Table) PeekSeesTwins() bool { return !t.opts.ClaimFirst }

// Probe is Peek for those who must see a twin in flight even where that costs more: with
// ClaimFirst it claims, and leaves the transaction to be rolled back.
func (t *Table) Probe(ctx context.Context, on *wire.Conn, e *Entry) (Lookup, error) {
	if !t.opts.ClaimFirst {
		return t.Peek(ctx, on, e)
	}
	if err := on.Prepare(ctx, t.usual...); err != nil {
		return Lookup{}, err
	}
	open, err := t.openClaim(ctx, on, &t.lookBegin, e)
	open.At = open.Started
	return open.Lookup, err
}

// LookUpIn is LookUp inside a caller's transaction. It reads the transaction's isolation
// level as well.
func (t *Table) LookUpIn(ctx context.Context, on *wire.Conn, id *Identity) (l Lookup, isolation string, err error) {
	p := on.Pipeline()
	p.Queue(wire.Query{Text: `SELECT pg_catalog.current_setting('transaction_isolation')`})
	p.Queue(t.lookUp, id.params()...)
	results := p.Send(ctx)
	if err = results.Scan(&isolation); err == nil {
		err = l.see(results)
	}
	return l, isolation, results.Close(err)
}

// TryClaim finds out whether a twin has the identity's row that need not have its lock. It
// claims the identity, and leaves the transaction to be rolled back. Busy is a twin. Whoever
// has locked the table, or a record that may be forgotten, is an error: a DELETE in front of
// the claim meets those, and no twin.
func (t *Table) TryClaim(ctx context.Context, on *wire.Conn, e *Entry) (Lookup, error) {
	p := on.Pipeline()
	p.QueueBegin(&t.lookBegin)
	_, seen, err := t.tryClaim(ctx, on, p, e)
	return seen, err
}

// TryClaimIn is TryClaim behind a savepoint in a caller's transaction, however old that one's
// snapshot is. The caller rolls back where marked says that the savepoint is set.
func (t *Table) TryClaimIn(ctx context.Context, on *wire.Conn, savepoint string, e *Entry) (marked bool, seen Lookup, err error) {
	p := on.Pipeline()
	p.Queue(wire.Query{Text: "savepoint " + savepoint})
	return t.tryClaim(ctx, on, p, e)
}

// tryClaim takes two round trips, because pgx may prepare what it sends, and to prepare a
// statement waits for a lock on its table. begin has the statement that begins.
func (t *Table) tryClaim(ctx context.Context, on *wire.Conn, begin *wire.Pipeline, e *Entry) (begun bool, seen Lookup, err error) {
	t.QueueSetLockTimeout(begin, RowTimeout)
	results := begin.Send(ctx)
	_, err = results.Exec()
	begun = err == nil
	if err == nil {
		err = t.ReadSetLockTimeout(results)
	}
	if err = results.Close(err); err != nil {
		return begun, seen, err
	}
	p := on.Pipeline()
	p.Queue(t.forget, e.params()...)
	readClaim := t.queueClaim(p, e, 0)
	results = p.Send(ctx)
	if _, err = results.Exec(); err != nil {
		return begun, seen, results.Close(err)
	}
	var open Opening
	err = readClaim(results, &open)
	open, err = busyIfLocked(open, results.Close(err))
	return begun, open.Lookup, err
}
