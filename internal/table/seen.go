package table

import (
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
