package sqldedup

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/wire"
)

// session is one pgx.Tx as a database of database/sql. database/sql opens as many connections
// as its user holds at a time, and all of them are the transaction: so a statement beside an
// open savepoint does not wait for it for ever.
type session struct {
	// mu is held for each operation on tx, because database/sql closes result sets and rolls
	// back from goroutines.
	mu sync.Mutex
	tx pgx.Tx
	// saved are the savepoints that are open, innermost last.
	saved []*savepoint
	// reading is the result set that is open.
	reading *rows
	misuse  error
	// undone is a misuse that makes an effect fail which returns no error.
	undone error
	left   bool
}

// Connect implements [driver.Connector].
func (s *session) Connect(context.Context) (driver.Conn, error) { return &conn{session: s}, nil }

// Driver implements [driver.Connector].
func (s *session) Driver() driver.Driver { return noDriver{} }

// noDriver opens nothing by name.
type noDriver struct{}

func (noDriver) Open(string) (driver.Conn, error) { return nil, errDone }

// errDone is what everything answers that is used after its effect.
var errDone error = &dedup.InvalidError{What: "effect", Reason: "has returned; its handle cannot be used any more"}

// enter begins an operation, which ends with mu.Unlock. It begins none after the effect.
func (s *session) enter() error {
	s.mu.Lock()
	if s.left {
		s.mu.Unlock()
		return errDone
	}
	return nil
}

// leave ends the session and returns what makes an effect fail that has returned err.
func (s *session) leave(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	if s.reading != nil {
		_ = s.reading.end() // a statement that failed is found at the end of the effect
	}
	s.dropEnded()
	if len(s.saved) > 0 {
		_ = s.misused("returned before it ended a transaction that it had begun") // it is returned below
	}
	if s.misuse == nil && err == nil {
		return s.undone
	}
	return s.misuse
}

// misused keeps the first misuse.
func (s *session) misused(reason string) error {
	err := &dedup.InvalidError{What: "effect", Reason: reason}
	if s.misuse == nil {
		s.misuse = err
	}
	return err
}

// handed is the isolation level by which Run begins the one transaction that is tx and no
// savepoint.
const handed sql.IsolationLevel = -1

// begin begins a transaction on a connection: tx itself, or a savepoint.
func (s *session) begin(ctx context.Context, of *conn, opts driver.TxOptions) (driver.Tx, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	level := sql.IsolationLevel(opts.Isolation)
	switch {
	case level == handed:
		return handedTx{s}, nil
	case level != sql.LevelDefault || opts.ReadOnly:
		return nil, &dedup.InvalidError{What: "effect", Reason: "began a transaction with an isolation level or an access mode; those are the effect's"}
	}
	s.dropEnded()
	outer := s.tx
	if n := len(s.saved); n > 0 {
		outer = s.saved[n-1].inner
	}
	inner, err := outer.Begin(ctx)
	if err != nil {
		return nil, err
	}
	begun := &savepoint{s: s, of: of, ctx: ctx, inner: inner}
	s.saved, of.begun = append(s.saved, begun), begun
	return begun, nil
}

// handedTx is the transaction that the effect has got as a *sql.Tx. Whoever has begun the pgx.Tx
// ends it.
type handedTx struct{ *session }

func (t handedTx) Commit() error   { return t.end() }
func (t handedTx) Rollback() error { return t.end() }

func (t handedTx) end() error {
	if t.enter() != nil {
		return nil // the effect has returned, and its transaction is freed
	}
	defer t.mu.Unlock()
	return t.misused("must not end its transaction: return nil to commit, an error to roll back")
}

// savepoint is a transaction that was begun on the *sql.DB of an effect.
type savepoint struct {
	s     *session
	of    *conn
	ctx   context.Context // with whose end database/sql rolls it back, from a goroutine
	inner pgx.Tx
	// beside is true when it holds what was done beside it, on the *sql.DB or in a transaction
	// inside it: in a database of its own that would outlive a rollback.
	beside bool
	// dropped is true when it was rolled back because ctx had ended.
	dropped bool
}

func (t *savepoint) Commit() error {
	return t.end(func() error {
		if t.dropped {
			return context.Cause(t.ctx)
		}
		err := t.leave(pgx.Tx.Commit)
		if n := len(t.s.saved); err == nil && n > 0 {
			t.s.saved[n-1].beside = true
		}
		return err
	})
}

func (t *savepoint) Rollback() error {
	return t.end(func() error {
		if t.dropped {
			return nil
		}
		return t.rollback()
	})
}

func (t *savepoint) end(how func() error) error {
	if err := t.s.enter(); err != nil {
		return err
	}
	defer t.s.mu.Unlock()
	t.of.begun = nil
	return how()
}

func (t *savepoint) rollback() error {
	err := t.leave(pgx.Tx.Rollback)
	if err == nil && t.beside {
		t.s.undone = &dedup.InvalidError{What: "effect", Reason: "rolled back a transaction inside which other statements of its *sql.DB had run: those are undone with it"}
	}
	return err
}

func (t *savepoint) leave(how func(pgx.Tx, context.Context) error) error {
	last := len(t.s.saved) - 1
	if last < 0 || t.s.saved[last] != t {
		return t.s.misused("ended a transaction before one that was begun inside it")
	}
	// It goes on when the caller's context has ended, as a rollback must.
	ctx, cancel := context.WithTimeout(context.Background(), wire.RollbackTimeout)
	defer cancel()
	if err := how(t.inner, ctx); err != nil {
		return err // and the session's leave reports that it is open
	}
	t.s.saved = t.s.saved[:last]
	return nil
}

// dropEnded rolls back the innermost savepoints whose context has ended, before anything else is
// done: what comes after that end is not to be undone with them.
func (s *session) dropEnded() {
	for n := len(s.saved); n > 0 && s.saved[n-1].ctx.Err() != nil; n-- {
		t := s.saved[n-1]
		if t.rollback() != nil {
			return
		}
		t.dropped = true
	}
}
