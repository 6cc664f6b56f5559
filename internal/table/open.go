package table

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// Open begins a transaction and looks the identity up in one round trip. The rider r, if it is not
// nil, is sent in the same trip. The caller must roll back, whatever Open returns, unless it
// commits.
func (t *Table) Open(ctx context.Context, on *wire.Conn, e *Entry, s *Seen, r *Rider) error {
	if err := on.Prepare(ctx, t.usual...); err != nil {
		return err
	}
	p := on.Pipeline()
	if r != nil {
		p = on.CallersPipeline()
	}
	p.Begin(&t.begin)
	if t.Profile.Claims {
		return t.openClaim(ctx, on, p, t.setUp, e, RowTimeout, s)
	}
	err := t.openLock(ctx, p, t.lock, e, s, r)
	if err == nil && s.Forgotten && !s.Busy && r == nil {
		if err = t.forgetRecord(ctx, on, e, RowTimeout); wire.SQLState(err) == wire.CodeLockNotAvailable {
			s.Busy, s.Held, err = true, err, nil
		}
	}
	return err
}

// OpenIn is Open inside the caller's transaction, behind a savepoint. It waits inside Postgres
// until twins end, where the deadlock detector sees the wait. limit bounds the wait; 0 sets no
// bound. After Busy the caller must roll back to the savepoint.
//
// With begin it also does the work of Begin in the same round trip. An error without a time in s.At
// is then an error of Begin.
func (t *Table) OpenIn(ctx context.Context, on *wire.Conn, begin bool, savepoint string, e *Entry, limit time.Duration, s *Seen) error {
	usual := t.usualIn
	if begin {
		usual = t.usualBeginIn
	}
	if err := on.Prepare(ctx, usual...); err != nil {
		return err
	}
	p := on.Pipeline()
	if begin {
		s.ahead = t.queueBegin(p)
	}
	p.Ignore(wire.Query{Text: "savepoint " + savepoint})
	if t.Profile.Claims {
		return t.openClaim(ctx, on, p, t.join, e, limit, s)
	}
	err := t.openLock(ctx, p, t.lockCapped, e, s, nil)
	if err == nil && s.Busy {
		err = t.waitForLock(ctx, on, e, limit, s)
	}
	if err == nil && s.Forgotten && !s.Busy {
		err = t.forgetRecord(ctx, on, e, limit)
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
	p.Scan(&s.locked, &s.At, nil, &s.locks, &s.Fresh)
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
	switch err := s.readLast(p); {
	case wire.SQLState(err) == wire.CodeLockNotAvailable:
		s.Busy = true // still
		return nil
	default:
		return err
	}
}

// forgetRecord deletes a forgotten record before the effect runs. So the call waits for a sweep or
// a reset that holds the row before the effect and not after it. A twin would hold the lock.
func (t *Table) forgetRecord(ctx context.Context, on *wire.Conn, e *Entry, limit time.Duration) error {
	p := on.Pipeline()
	t.startLimit(p, limit)
	p.Ignore(t.forget, &e.Scope, &e.Tool, &e.Key)
	t.endLimit(p, limit)
	p.Send(ctx)
	return p.Close()
}

// openClaim inserts the identity before the effect; the row is completed with the COMMIT. A twin's
// claim makes the insert wait inside Postgres, so it is sent with a lock_timeout, after which the
// twin counts as busy.
//
// The claim is ON CONFLICT DO NOTHING, which looks before it writes, so that a conflict with a twin
// leaves no dead row. That is safe only here, because no COMMIT travels with it.
func (t *Table) openClaim(ctx context.Context, on *wire.Conn, p *wire.Pipeline, setUp wire.Query, e *Entry, limit time.Duration, s *Seen) error {
	p.Queue(setUp)
	t.queueClaim(p, e, limit)
	s.send(ctx, p)
	s.readBegin(p)
	p.Scan(nil, &s.At, nil, nil, &s.Fresh)
	s.InSavepoint = p.Succeeded() > s.ahead
	err := s.readClaim(p)
	forgotten := s.Forgotten
	if err == nil && s.Forgotten {
		old := s.Record
		p = on.Pipeline()
		t.startLimit(p, limit)
		p.Ignore(t.forget, &e.Scope, &e.Tool, &e.Key)
		t.endLimit(p, limit)
		t.queueClaim(p, e, limit)
		p.Send(ctx)
		if err = s.readClaim(p); !s.Found { // the forgotten record is unchanged
			s.Record, s.Forgotten = old, true
		}
	}
	if err = s.busyIfLocked(err); s.Busy {
		s.Forgotten = forgotten
	}
	return err
}

// busyIfLocked sets Busy if a claim gave up waiting.
func (s *Seen) busyIfLocked(err error) error {
	if wire.SQLState(err) != wire.CodeLockNotAvailable {
		return err
	}
	s.Found, s.Hidden, s.Forgotten, s.Busy = false, false, false, true
	return nil
}

// queueClaim queues the claim, and a look-up that sees a conflicting row.
func (t *Table) queueClaim(p *wire.Pipeline, e *Entry, limit time.Duration) {
	t.startLimit(p, limit)
	p.Queue(t.claim, &e.Scope, &e.Tool, &e.Key, &e.Fingerprint, &e.ArgDigests, &e.Keep, &e.Forget)
	t.endLimit(p, limit)
	p.Queue(t.lookUp, &e.Scope, &e.Tool, &e.Key)
}

func (s *Seen) readClaim(p *wire.Pipeline) error {
	claimed := p.Exec().RowsAffected() == 1
	err := s.readLast(p)
	if claimed { // the look-up found the claim itself
		s.Found, s.Forgotten = false, false
	}
	s.Hidden = !claimed && !s.Found
	return err
}

// RowTimeout bounds how long a claim, or the DELETE of a forgotten record, waits inside Postgres
// for the row. Afterwards the connection is released.
const RowTimeout = 5 * time.Millisecond

// Limit returns statements that bound waits for rows and locks between set and reset: to limit, and
// to the session's own lock_timeout if that is shorter. A limit of 0 sets no bound. On several
// servers (Profile.Spread) the statements need a transaction block.
func Limit(p Profile, limit time.Duration) (set, reset []string) {
	if limit == 0 {
		return nil, nil
	}
	l, text := newLockTimeoutSQL(p), lockTimeout(roundUp(limit))
	if p.Spread {
		return []string{l.keep.Text, "set local lock_timeout = " + text}, []string{l.release.Text, l.reset.Text}
	}
	return []string{strings.ReplaceAll(l.set.Text, "$1::bigint", text)}, []string{l.reset.Text}
}

// lockTimeoutSQL bounds how long statements wait for rows and locks.
type lockTimeoutSQL struct {
	// set saves the session's own limit and sets another one, unless its own is shorter. reset
	// restores it.
	set, reset wire.Query
	// If rows are spread, keep comes first, then SET LOCAL with the limit: Citus passes SET LOCAL
	// on if keep tells it to, but never set_config. release ends that.
	keep, release wire.Query
	spread        bool
}

func newLockTimeoutSQL(p Profile) lockTimeoutSQL {
	const (
		save   = `pg_catalog.set_config('tool_dedup.lock_timeout', pg_catalog.current_setting('lock_timeout'), true)`
		saved  = `pg_catalog.current_setting('tool_dedup.lock_timeout')`
		giveUp = `pg_catalog.set_config('lock_timeout', ` + saved + `, true)`
		pass   = `'citus.propagate_set_commands'`
		passed = `'tool_dedup.propagate'`
	)
	if !p.Spread {
		return lockTimeoutSQL{
			set: wire.NewQuery(`SELECT ` + save + `,
       pg_catalog.set_config('lock_timeout', ` + shorterTimeout("$1::bigint", "own.max") + `, true)
  FROM (SELECT pg_catalog.current_setting('lock_timeout') AS max) own`),
			reset: wire.NewQuery(`SELECT ` + giveUp),
		}
	}
	return lockTimeoutSQL{
		spread: true,
		keep: wire.NewQuery(`SELECT ` + save + `,
       pg_catalog.set_config(` + passed + `, COALESCE(pg_catalog.current_setting(` + pass + `, true), 'none'), true),
       pg_catalog.set_config(` + pass + `, 'local', true)`),
		set:     wire.NewQuery(`SELECT pg_catalog.set_config('lock_timeout', ` + shorterTimeout("$1::bigint", saved) + `, true)`),
		release: wire.NewQuery(`set local lock_timeout to default`),
		reset: wire.NewQuery(`SELECT ` + giveUp + `,
       pg_catalog.set_config(` + pass + `, pg_catalog.current_setting(` + passed + `), true)`),
	}
}

// usual returns the statements to prepare. SET LOCAL takes no parameter and is not among them.
func (l *lockTimeoutSQL) usual() []wire.Query {
	if l.spread {
		return []wire.Query{l.keep, l.set, l.release, l.reset}
	}
	return []wire.Query{l.set, l.reset}
}

// startLimit bounds the waits for rows and locks of the statements that are queued until endLimit.
// A limit of 0 sets no bound.
func (t *Table) startLimit(p *wire.Pipeline, limit time.Duration) {
	if limit == 0 {
		return
	}
	l := &t.lockTimeout
	if l.spread {
		limit = roundUp(limit)
		p.Ignore(l.keep)
		p.Ignore(wire.Query{Text: "set local lock_timeout = " + lockTimeout(limit)})
	}
	text := lockTimeout(limit)
	p.Ignore(l.set, &text)
}

// endLimit restores the session's own limit.
func (t *Table) endLimit(p *wire.Pipeline, limit time.Duration) {
	if limit == 0 {
		return
	}
	if t.lockTimeout.spread {
		p.Ignore(t.lockTimeout.release)
	}
	p.Ignore(t.lockTimeout.reset)
}

// roundUp rounds a limit up to two digits of milliseconds, so that there are few different texts:
// connections keep the texts that they sent.
func roundUp(limit time.Duration) time.Duration {
	limit, unit := min(limit, maxLockTimeout), time.Millisecond
	for limit > 100*unit {
		unit *= 10
	}
	return (limit + unit - 1) / unit * unit
}

// maxLockTimeout is the maximum of lock_timeout: an int32 of milliseconds.
const maxLockTimeout = math.MaxInt32 * time.Millisecond

// lockTimeout returns a limit as a value of lock_timeout, in which 0 sets no bound.
func lockTimeout(limit time.Duration) string {
	return strconv.FormatInt(min(max(limit, time.Millisecond), maxLockTimeout).Milliseconds(), 10)
}

// shorterTimeout returns SQL for the shorter of two lock_timeouts: ms milliseconds, and the
// session's own.
func shorterTimeout(ms, own string) string {
	return "CASE WHEN " + own + " <> '0' AND " + own + "::interval < " + ms + " * interval '1 millisecond' THEN " + own + " ELSE " + ms + "::text END"
}
