package sqldedup

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/wire"
)

// session is a pgx.Tx as a database of database/sql. database/sql opens as many connections as its
// user needs at a time, and all are this transaction. So a statement beside an open savepoint does
// not wait for it.
type session struct {
	// mu guards each operation on tx, because database/sql closes result sets and rolls
	// back from goroutines.
	mu sync.Mutex
	tx pgx.Tx
	// saved are the open savepoints, the innermost last.
	saved []*savepoint
	// calls counts the calls of DoTx on tx whose effect is running. Savepoints before floor are
	// around the innermost of these calls.
	calls, floor int
	// reading is the open result set.
	reading *rows
	misuse  error
	// undone is the error of an effect that returns none, or a refusal: BeginFunc would commit it.
	undone error
	left   bool
}

// Connect implements [driver.Connector].
func (s *session) Connect(context.Context) (driver.Conn, error) { return &conn{session: s}, nil }

// Driver implements [driver.Connector].
func (s *session) Driver() driver.Driver { return noDriver{} }

// noDriver cannot open databases by name.
type noDriver struct{}

func (noDriver) Open(string) (driver.Conn, error) { return nil, errDone }

// errDone is returned for any use of the handle after its effect.
var errDone error = &dedup.InvalidError{What: "effect", Reason: "has returned; its handle cannot be used any more"}

// enter locks mu for an operation, or returns errDone.
func (s *session) enter() error {
	s.mu.Lock()
	if s.left {
		s.mu.Unlock()
		return errDone
	}
	return nil
}

// leave ends the session and returns the error of an effect that returned err.
func (s *session) leave(ctx context.Context, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	if s.lost() {
		return err // the lost connection may have caused the misuse; without err the guard reports it
	}
	if s.calls > 0 {
		_ = s.misused("returned before a DoTx inside it had ended")
		s.close() // so that the call cannot use the connection's next transaction
	}
	if s.reading != nil {
		_ = s.reading.end() // the guard reports a failed statement
	}
	s.dropEnded()
	if len(s.saved) > 0 {
		_ = s.misused("returned before it ended a transaction that it had begun") // returned below
	}
	switch {
	case s.misuse != nil:
		return guard.Misused(ctx, s.misuse, err)
	case s.undone != nil && (err == nil || errors.Is(err, dedup.ErrRefused)): // BeginFunc commits a refusal
		return guard.Misused(ctx, s.undone, err)
	}
	return err
}

// leaveCall ends the effect of a DoTx that returned err, and returns its error. before is what undone
// was when the effect began: the call's savepoint rolls back what the effect undid.
func (s *session) leaveCall(ctx context.Context, before, err error) error {
	if s.lost() {
		return err
	}
	if s.reading != nil {
		_ = s.reading.end()
	}
	s.dropEnded()
	if undone := s.undone; undone != before && err == nil {
		err = undone
	}
	s.undone = before
	if len(s.saved) == s.floor {
		return err
	}
	misuse := s.misused("returned before it ended a transaction that it had begun")
	for _, open := range s.saved[s.floor:] { // the call rolls back the savepoint around them
		open.dropped = misuse
	}
	s.saved = s.saved[:s.floor]
	return guard.Misused(ctx, misuse, err)
}

// lost reports whether the connection is closed.
func (s *session) lost() bool {
	conn := guard.ConnOf(s.tx)
	return conn != nil && conn.IsClosed()
}

// close closes the connection.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), wire.RollbackTimeout)
	defer cancel()
	_ = guard.ConnOf(s.tx).Close(ctx)
}

// misused keeps the first misuse.
func (s *session) misused(reason string) error {
	err := &dedup.InvalidError{What: "effect", Reason: reason}
	if s.misuse == nil {
		s.misuse = err
	}
	return err
}

// effectsOwnTx is the isolation level with which Run begins the transaction that is tx itself, not
// a savepoint.
const effectsOwnTx sql.IsolationLevel = -1

// begin begins a transaction on a connection: tx itself, or a savepoint.
func (s *session) begin(ctx context.Context, of *conn, opts driver.TxOptions) (driver.Tx, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	level := sql.IsolationLevel(opts.Isolation)
	switch {
	case level == effectsOwnTx:
		return effectsTx{s}, nil
	case s.lost(): // its savepoints may be closed, whose rollback failed
		return nil, fmt.Errorf("sqldedup: beginning a transaction: %w", pgconn.ErrConnClosed)
	case level != sql.LevelDefault || opts.ReadOnly:
		return nil, &dedup.InvalidError{What: "effect", Reason: "began a transaction with an isolation level or an access mode; only the effect's transaction has these"}
	}
	s.dropEnded()
	outer := s.tx
	if n := len(s.saved); n > s.floor {
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

// effectsTx is an effect's transaction as a *sql.Tx. The beginner of the pgx.Tx ends it.
type effectsTx struct{ *session }

func (t effectsTx) Commit() error   { return t.end() }
func (t effectsTx) Rollback() error { return t.end() }

func (t effectsTx) end() error {
	if t.enter() != nil {
		return nil // after the effect, database/sql frees its resources
	}
	defer t.mu.Unlock()
	return t.misused("must not end its transaction: return nil to commit, an error to roll back")
}
