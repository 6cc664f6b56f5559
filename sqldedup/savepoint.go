package sqldedup

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/wire"
)

// savepoint is a transaction that was begun on the *sql.DB of an effect.
type savepoint struct {
	s     *session
	of    *conn
	ctx   context.Context // database/sql rolls back from a goroutine when it ends
	inner pgx.Tx
	// wroteInside is true if other statements of the *sql.DB, or a transaction inside it, ran in
	// the savepoint. On a real *sql.DB a rollback would not undo those.
	wroteInside bool
	// dropped is the reason if the session rolled the savepoint back.
	dropped error
}

func (t *savepoint) Commit() error {
	return t.end(func() error {
		switch {
		case t.dropped != nil:
			return t.dropped
		case t.ctx.Err() != nil:
			return context.Cause(t.ctx)
		case t.s.aborted(): // as PostgreSQL's COMMIT does
			if err := t.rollback(); err != nil {
				return err
			}
			return pgx.ErrTxCommitRollback
		}
		err := t.leave(pgx.Tx.Commit)
		if n := len(t.s.saved); err == nil && n > 0 {
			t.s.saved[n-1].wroteInside = true
		}
		return err
	})
}

func (t *savepoint) Rollback() error {
	return t.end(func() error {
		if t.dropped != nil || t.ctx.Err() != nil { // dropEnded rolls it back
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
	t.s.dropEnded()
	t.of.begun = nil
	return how()
}

func (t *savepoint) rollback() error {
	err := t.leave(pgx.Tx.Rollback)
	if err == nil && t.wroteInside {
		t.s.undone = &dedup.InvalidError{What: "effect", Reason: "rolled back a transaction in which other statements of its *sql.DB had run, and undid them; send them on the transaction or after it"}
	}
	return err
}

func (t *savepoint) leave(how func(pgx.Tx, context.Context) error) error {
	last := len(t.s.saved) - 1
	switch {
	case t.s.lost():
		return fmt.Errorf("sqldedup: ending a transaction: %w", pgconn.ErrConnClosed)
	case t.s.reading != nil:
		return t.s.misused("ended a transaction while a result set was open; close its rows first")
	case last < t.s.floor:
		return t.s.misused("ended a transaction before a DoTx inside it had ended")
	case t.s.saved[last] != t:
		return t.s.misused("ended a transaction before one that was begun inside it")
	}
	if err := t.send(how); err != nil {
		return err // the session's leave reports that it is open
	}
	t.s.saved = t.s.saved[:last]
	return nil
}

// send ends the savepoint on the server, even if the caller's context has ended.
func (t *savepoint) send(how func(pgx.Tx, context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), wire.RollbackTimeout)
	defer cancel()
	return how(t.inner, ctx)
}

// aborted reports whether a statement has failed and its transaction is not rolled back.
func (s *session) aborted() bool {
	conn := guard.ConnOf(s.tx)
	return conn != nil && conn.PgConn().TxStatus() == 'E'
}

// dropEnded rolls back the outermost savepoint whose context has ended, and all inside it. It runs
// before every operation, so that the rollback does not undo later statements. Inside a call,
// savepoints around the call wait for its end.
func (s *session) dropEnded() {
	at := s.floor
	for at < len(s.saved) && s.saved[at].ctx.Err() == nil {
		at++
	}
	if at == len(s.saved) || s.lost() {
		return
	}
	t, inside := s.saved[at], s.saved[at:]
	why := context.Cause(t.ctx)
	if s.reading != nil && !s.reading.cutBy(inside, why) {
		return // the rows belong to another transaction, which closes them first
	}
	if t.send(pgx.Tx.Rollback) != nil {
		return
	}
	for _, one := range inside {
		one.dropped = why
		if one != t && one.ctx.Err() == nil || one.wroteInside {
			s.undone = fmt.Errorf("sqldedup: the context of a transaction ended inside which other statements of its *sql.DB had run: those are undone with it: %w", why)
		}
	}
	s.saved = s.saved[:at]
}
