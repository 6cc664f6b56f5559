package table

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/tooldedup/dedup/internal/wire"
)

// Seen is the result of looking up one identity.
type Seen struct {
	// Found is true if Record is valid. Forgotten is true if there is a forgotten record: it does
	// not count, but conflicts with a new one until it is deleted.
	Found, Forgotten bool
	Record           Record
	// Busy is true if there is no record and a twin is in flight. With Held, another transaction
	// holds a forgotten record, and Held is the error of its DELETE.
	Busy bool
	Held error
	// Cancelled is true if a statement failed as [CancelledAtLimit] describes.
	Cancelled bool
	// Hidden is true if a claim conflicts with a row that no look-up finds. The row was deleted in
	// between, or is invisible.
	Hidden bool
	// Started is now() in the transaction of the look-up, and identifies that transaction. It is
	// zero without one.
	Started time.Time

	// The rest is set when a transaction or a savepoint is opened.

	// Tx is the transaction that Open, or OpenIn with begin, began.
	Tx pgx.Tx
	// InSavepoint is true after the savepoint was set.
	InSavepoint bool
	// Fresh is true if every statement of the transaction sees everything committed before it.
	Fresh bool

	// ahead is the number of statements ahead of the one that sets the savepoint.
	ahead int
	// Room for columns.
	locked bool
	locks  int64
	result pgtype.Text
}

// columns returns the destinations of the columns of a look-up.
func (s *Seen) columns() [8]any {
	r := &s.Record
	return [...]any{&r.Fingerprint, &r.ArgDigests, (*string)(&r.Outcome), &s.result, &r.CreatedAt, &r.ExpiresAt, &r.ForgetAt, &r.SeenAt}
}

// readLast reads the reply to a look-up at the end of the pipeline, and closes the pipeline.
func (s *Seen) readLast(p *wire.Pipeline) error {
	s.readRow(p)
	return s.check(p.Close())
}

// readRow reads the reply to a look-up.
func (s *Seen) readRow(p *wire.Pipeline) {
	columns := s.columns()
	s.Found, s.Forgotten, s.Busy = false, false, false
	if p.Scan(columns[:]...) {
		s.fill(p)
	}
}

// fill sets the fields of Seen from the columns of a record.
func (s *Seen) fill(p *wire.Pipeline) {
	s.Record.Result, s.Record.Tombstone, s.Record.SentAt = s.result.String, !s.result.Valid, p.SentAt
	s.Forgotten = s.Record.Forgotten()
	s.Found = !s.Forgotten
}

// check returns an error if the outcome of the record is unknown to this version.
func (s *Seen) check(err error) error {
	switch s.Record.Outcome {
	case Done, Refused, Broken, claimed:
		return err
	}
	if err == nil && (s.Found || s.Forgotten) {
		return fmt.Errorf("dedup: a record has outcome %q; another version of the library wrote it", s.Record.Outcome)
	}
	return err
}

// LookUp reads the record and nothing else.
func (t *Table) LookUp(ctx context.Context, on *wire.Conn, e *Entry, s *Seen) error {
	if err := on.Prepare(ctx, t.primary, t.lookUp); err != nil {
		return err
	}
	p := on.Pipeline()
	p.Ignore(t.primary)
	p.Queue(t.lookUp, &e.Scope, &e.Tool, &e.Key)
	p.Send(ctx)
	return s.readLast(p)
}

// LookUpAll is LookUp of many entries in one statement. It calls see for every entry that has a
// record.
func (t *Table) LookUpAll(ctx context.Context, on *wire.Conn, entries []*Entry, see func(n int, s *Seen)) error {
	if err := on.Prepare(ctx, t.primary, t.lookUpAll); err != nil {
		return err
	}
	scopes, tools, keys := names(entries)
	p := on.Pipeline()
	p.Ignore(t.primary)
	p.Queue(t.lookUpAll, scopes, tools, keys)
	p.Send(ctx)
	readAll(p, see)
	return p.Close()
}

// readAll reads the reply to lookUpAll.
func readAll(p *wire.Pipeline, see func(n int, s *Seen)) {
	s, n := &Seen{}, int64(0)
	columns := s.columns()
	p.Each(append([]any{&n}, columns[:]...), func() error {
		s.fill(p)
		err := s.check(nil)
		if err == nil {
			see(int(n)-1, s)
		}
		return err
	})
}

// names are the parts of the entries' identities.
func names(entries []*Entry) (scopes, tools, keys []string) {
	for _, e := range entries {
		scopes, tools, keys = append(scopes, e.Scope), append(tools, e.Tool), append(keys, e.Key)
	}
	return scopes, tools, keys
}

// LookForTwin reads the record. Without one it tries the lock: Busy means a twin in flight. It sends
// a transaction of its own, which ends in the same round trip. A record that it finds is final; a
// free identity is a hint. If calls claim, LookForTwin does not see a claim: a twin in flight looks
// free, and the attempt that follows finds it busy.
//
// The look-up's snapshot is younger than the lock, whatever isolation level is the session's
// default.
func (t *Table) LookForTwin(ctx context.Context, on *wire.Conn, e *Entry, s *Seen) error {
	if t.Profile.Claims {
		return t.LookUp(ctx, on, e, s)
	}
	// Nothing that writes: preparing it would wait for a lock such as that of CREATE INDEX.
	if err := on.Prepare(ctx, t.beginLook.Query, t.lockLook, t.lookUp, t.rollback); err != nil {
		return err
	}
	p := on.Pipeline()
	p.Begin(&t.beginLook)
	p.Queue(t.lockLook, &e.Lock)
	p.Queue(t.lookUp, &e.Scope, &e.Tool, &e.Key)
	p.Ignore(t.rollback)
	p.Send(ctx)
	p.Scan(&s.locked, &s.Started)
	err := s.readLast(p)
	s.Busy = !s.locked && !s.Found
	return err
}

// FindTwin is LookForTwin that also detects a twin in flight if calls claim: without a record it
// claims too, and leaves the transaction to be rolled back.
func (t *Table) FindTwin(ctx context.Context, on *wire.Conn, e *Entry, s *Seen) error {
	if !t.Profile.Claims {
		return t.LookForTwin(ctx, on, e, s)
	}
	if err := t.LookUp(ctx, on, e, s); err != nil || s.Found {
		return err
	}
	if err := Prepare(ctx, on, RowTimeout, t.usual...); err != nil {
		return err
	}
	p := on.Pipeline()
	p.Begin(&t.beginLook)
	t.queueSetUpForClaim(p)
	return t.openClaim(ctx, on, p, e, RowTimeout, s)
}

// TryClaim detects a twin that holds the identity's row but not its lock. It claims the identity,
// and leaves the transaction to be rolled back. Busy means a twin. A lock on the table, or on a
// forgotten record, is an error: the DELETE before the claim waits for these, but not for a twin.
func (t *Table) TryClaim(ctx context.Context, on *wire.Conn, e *Entry, s *Seen) error {
	p := on.Pipeline()
	p.Begin(&t.beginLook)
	return t.tryClaim(ctx, on, p, e, s)
}

// TryClaimIn is TryClaim behind a savepoint in a caller's transaction. A claim conflicts with
// everything committed, however old the transaction's snapshot is. The caller must roll back if
// InSavepoint is true.
func (t *Table) TryClaimIn(ctx context.Context, on *wire.Conn, savepoint string, e *Entry, s *Seen) error {
	p := on.Pipeline()
	p.Ignore(wire.Query{Text: "savepoint " + savepoint})
	return t.tryClaim(ctx, on, p, e, s)
}

// tryClaim takes two round trips: preparing a statement waits for a lock on its table, so the limit
// must be set before. begin holds the statement that begins.
func (t *Table) tryClaim(ctx context.Context, on *wire.Conn, begin *wire.Pipeline, e *Entry, s *Seen) error {
	t.startLimit(begin, RowTimeout)
	begin.Send(ctx)
	err := begin.Close()
	s.InSavepoint = begin.Succeeded() > 0
	if err != nil {
		return err
	}
	p := on.Pipeline()
	p.Queue(t.forget, &e.Scope, &e.Tool, &e.Key)
	t.queueClaim(p, e)
	p.Send(ctx)
	p.Exec()
	if p.Failed() {
		return p.Close()
	}
	err = t.readClaim(ctx, on, p, e, s)
	return s.busyIfGaveUp(err, time.Since(p.SentAt), RowTimeout)
}
