package table

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup/internal/wire"
)

// Open begins a transaction and looks the identity up in one round trip. The rider r, if it is not
// nil, is sent in the same trip. limit bounds how long preparing the statements waits for a lock on
// the table; 0 sets no bound. The caller must roll back, whatever Open returns, unless it commits.
func (t *Table) Open(ctx context.Context, on *wire.Conn, e *Entry, limit time.Duration, s *Seen, r *Rider) error {
	if err := Prepare(ctx, on, limit, t.usual...); err != nil {
		return err
	}
	p := on.Pipeline()
	if r != nil {
		p = on.CallersPipeline()
	}
	p.Begin(&t.begin)
	if t.Profile.Claims {
		t.queueSetUpForClaim(p)
		return t.openClaim(ctx, on, p, e, RowTimeout, s)
	}
	err := t.openLock(ctx, p, t.lock, e, s, r)
	if err == nil && s.Forgotten && !s.Busy && r == nil {
		if err = t.forgetRecord(ctx, on, e, RowTimeout, s); GaveUp(err) {
			s.Busy, s.Held, err = true, err, nil
		}
	}
	return err
}

// OpenIn is Open inside the caller's transaction, behind a savepoint. It waits inside Postgres
// until twins end, where the deadlock detector sees the wait. limit bounds the wait; 0 sets no
// bound. After Busy the caller must roll back to the savepoint.
//
// With begin it also does the work of Begin in the same round trip. An error without a time in
// s.Started is then an error of Begin.
func (t *Table) OpenIn(ctx context.Context, on *wire.Conn, begin bool, savepoint string, e *Entry, limit time.Duration, s *Seen) error {
	usual := t.usualIn
	if begin {
		usual = t.usualBeginIn
	}
	if err := Prepare(ctx, on, limit, usual...); err != nil {
		return err
	}
	p := on.Pipeline()
	if begin {
		s.ahead = t.queueBegin(p)
	}
	p.Ignore(wire.Query{Text: "savepoint " + savepoint})
	if t.Profile.Claims {
		p.Queue(t.join)
		t.startLimit(p, limit)
		return t.openClaim(ctx, on, p, e, limit, s)
	}
	err := t.openLock(ctx, p, t.lockCapped, e, s, nil)
	if err == nil && s.Busy {
		err = t.waitForLock(ctx, on, e, limit, s)
	}
	if err == nil && s.Forgotten && !s.Busy {
		err = t.forgetRecord(ctx, on, e, limit, s)
	}
	return err
}

// openLock takes the identity's advisory lock and looks the identity up. The lock spares a twin an
// effect that would be rolled back, and shows that a twin is in flight; the primary key decides. If
// there is a record, it counts even if the lock is held: its transaction ended.
func (t *Table) openLock(ctx context.Context, p *wire.Pipeline, lock wire.Query, e *Entry, s *Seen, r *Rider) (err error) {
	p.Queue(lock, &e.Lock)
	p.Queue(t.lookUp, &e.Scope, &e.Tool, &e.Key)
	if r != nil {
		p.Queue(t.gate, &e.Scope, &e.Tool, &e.Key, &e.Lock)
		if err := p.QueueArgs(r.Query, r.Args); err != nil {
			return err
		}
	}
	s.send(ctx, p)
	s.readBegin(p)
	p.Scan(&s.locked, &s.Started, nil, &s.locks, &s.Fresh)
	s.InSavepoint = p.Succeeded() > s.ahead
	if r == nil {
		err = s.readLast(p)
	} else {
		s.readRow(p)
		err = s.check(r.read(p))
	}
	s.Busy = !s.locked && !s.Found
	return err
}

// send sends the pipeline that begins the transaction.
func (s *Seen) send(ctx context.Context, p *wire.Pipeline) {
	p.Send(ctx)
	s.Tx = p.Tx()
}

// waitForLock waits for the lock inside Postgres. The look-up is another statement, because its
// snapshot must be younger than the lock.
func (t *Table) waitForLock(ctx context.Context, on *wire.Conn, e *Entry, limit time.Duration, s *Seen) error {
	p := on.Pipeline()
	t.startLimit(p, limit)
	p.Ignore(t.lockWait, &e.Lock)
	t.endLimit(p, limit)
	p.Queue(t.lookUp, &e.Scope, &e.Tool, &e.Key)
	p.Send(ctx)
	return s.busyIfGaveUp(s.readLast(p), time.Since(p.SentAt), limit)
}

// forgetRecord deletes a forgotten record before the effect runs. So the call waits for a sweep or
// a reset that holds the row before the effect and not after it. A twin would hold the lock.
func (t *Table) forgetRecord(ctx context.Context, on *wire.Conn, e *Entry, limit time.Duration, s *Seen) error {
	p := on.Pipeline()
	t.startLimit(p, limit)
	p.Ignore(t.forget, &e.Scope, &e.Tool, &e.Key)
	t.endLimit(p, limit)
	p.Send(ctx)
	err := p.Close()
	s.Cancelled = CancelledAtLimit(err, time.Since(p.SentAt), limit)
	return err
}

// queueSetUpForClaim queues the statements that set the library's transaction up, and a lock_timeout
// for the claim.
func (t *Table) queueSetUpForClaim(p *wire.Pipeline) {
	p.Queue(t.setUpKeep)
	t.startKeptLimit(p, RowTimeout)
}

// openClaim inserts the identity before the effect; the row is completed with the COMMIT. A twin's
// claim makes the insert wait inside Postgres, so p sends it with a lock_timeout, after which the
// twin counts as busy.
//
// The claim is ON CONFLICT DO NOTHING, which looks before it writes, so that a conflict with a twin
// leaves no dead row. That is safe only here, because no COMMIT travels with it.
func (t *Table) openClaim(ctx context.Context, on *wire.Conn, p *wire.Pipeline, e *Entry, limit time.Duration, s *Seen) error {
	sent := time.Now()
	t.queueClaim(p, e)
	t.endLimit(p, limit)
	s.send(ctx, p)
	s.readBegin(p)
	p.Scan(nil, &s.Started, nil, nil, &s.Fresh)
	s.InSavepoint = p.Succeeded() > s.ahead
	err := t.readClaim(ctx, on, p, e, s)
	forgotten := s.Forgotten
	if err == nil && s.Forgotten {
		old := s.Record
		p = on.Pipeline()
		t.startLimit(p, limit)
		p.Ignore(t.forget, &e.Scope, &e.Tool, &e.Key)
		t.queueClaim(p, e)
		t.endLimit(p, limit)
		p.Send(ctx)
		if err = t.readClaim(ctx, on, p, e, s); !s.Found { // the forgotten record is unchanged
			s.Record, s.Forgotten = old, true
		}
	}
	if err = s.busyIfGaveUp(err, time.Since(sent), limit); s.Busy {
		s.Forgotten = forgotten
	}
	return err
}

// busyIfGaveUp returns the error of a statement that took so long. If the statement gave up waiting
// for a twin, it sets Busy instead.
func (s *Seen) busyIfGaveUp(err error, took, limit time.Duration) error {
	s.Cancelled = CancelledAtLimit(err, took, limit)
	if !GaveUp(err) {
		return err
	}
	s.Busy = true
	return nil
}

func (t *Table) queueClaim(p *wire.Pipeline, e *Entry) {
	p.Queue(t.claim, &e.Scope, &e.Tool, &e.Key, &e.Fingerprint, &e.ArgDigests, &e.Keep, &e.Forget)
}

// readClaim reads the reply to a claim and closes the pipeline. If a row conflicts, it looks the
// row up in another round trip: behind a claim that succeeds, a look-up would only cost time.
func (t *Table) readClaim(ctx context.Context, on *wire.Conn, p *wire.Pipeline, e *Entry, s *Seen) error {
	claimed := p.Exec().RowsAffected() == 1
	err := p.Close()
	s.Found, s.Forgotten, s.Hidden, s.Busy = false, false, false, false
	if claimed || err != nil {
		return err
	}
	p = on.Pipeline()
	p.Queue(t.lookUp, &e.Scope, &e.Tool, &e.Key)
	p.Send(ctx)
	err = s.readLast(p)
	s.Hidden = !s.Found
	return err
}

// RowTimeout bounds how long a claim, or the DELETE of a forgotten record, waits inside Postgres
// for the row. Afterwards the connection is released.
const RowTimeout = 5 * time.Millisecond

// Begin begins a transaction without a call, in one round trip. It has the same settings as a
// transaction of Open. started is its now().
func (t *Table) Begin(ctx context.Context, on *wire.Conn) (tx pgx.Tx, started time.Time, err error) {
	if err := on.Prepare(ctx, t.usualBegin...); err != nil {
		return nil, started, err
	}
	var s Seen
	p := on.Pipeline()
	s.ahead = t.queueBegin(p)
	s.send(ctx, p)
	s.readBegin(p)
	return s.Tx, s.Started, p.Close()
}

// queueBegin queues BEGIN and the settings of the transaction, and returns the number of
// statements.
func (t *Table) queueBegin(p *wire.Pipeline) int {
	p.Begin(&t.begin)
	p.Queue(t.setUp)
	return 2
}

// readBegin reads the reply to the statements of queueBegin, if there are any.
func (s *Seen) readBegin(p *wire.Pipeline) {
	if s.ahead > 0 {
		p.Scan(nil, &s.Started, nil, nil, nil)
	}
}

// QueueSameTx queues a statement that raises 22012 unless the transaction began at started. Use it
// before a COMMIT without a record's statement. It is sent as text, because a function may have
// discarded prepared statements.
func QueueSameTx(p *wire.Pipeline, started *time.Time) {
	p.Queue(wire.Query{Text: `SELECT 1 / (pg_catalog.now() = $1::timestamptz)::int`}, started)
}

// QueueRefused queues a statement that raises 22012 unless the transaction sees the record of a
// refusal that was created at createdAt. It is sent as text for the same reason.
func (t *Table) QueueRefused(p *wire.Pipeline, id *Identity, createdAt *time.Time) {
	p.Queue(t.refused, &id.Scope, &id.Tool, &id.Key, createdAt)
}
