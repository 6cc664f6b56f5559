package sqldedup

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
)

// Tx is an open transaction of database/sql: a *sql.Tx, or a type that passes a statement and its
// arguments on unchanged. The transaction of
//
//   - sqlx is its *sqlx.Tx, and that of ent its *ent.Tx with the feature sql/execquery;
//   - gorm is passed by gormdedup.DoTx;
//   - bun is the field Tx of its bun.Tx.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// DoTx is [dedup.DoTx] in a transaction that database/sql has begun through pgx's driver. The
// effect writes through the caller's tx or its ORM. Commit the transaction after a nil error and
// after [dedup.ErrRefused], and roll it back after any other. After [dedup.ErrRestartTx] run the
// whole transaction again.
//
// Begin the transaction with context.WithoutCancel(ctx), unless tx is an effect's handle or was
// begun on one. When a transaction's context ends, database/sql rolls back from another goroutine,
// on the connection that DoTx is using. If the database is of [OpenDB], DoTx knows the context, and
// one that can end is a [dedup.InvalidError]. Otherwise a *sql.Tx does not reveal it, and DoTx asks
// tx if it has a method BegunWith() context.Context.
//
// The effect must not end the transaction. Nothing prevents it: DoTx detects it afterwards and
// returns [dedup.ErrBroken]. A tx that is not open, or not of pgx's driver, is a
// [dedup.InvalidError]. The other errors are those of dedup.DoTx.
func DoTx[R any](ctx context.Context, d *dedup.Deduper, tx Tx, call dedup.Call, effect func(ctx context.Context) (R, error)) (dedup.Result[R], error) {
	inner, held, err := pgxTx(ctx, tx)
	if err != nil {
		return dedup.Result[R]{}, err
	}
	if effect == nil { // dedup.DoTx returns the error
		return dedup.DoTx[R](ctx, d, callersTx{}, call, nil)
	}
	if held == nil {
		return dedup.DoTx(ctx, d, inner, call, func(ctx context.Context, guarded pgx.Tx) (R, error) {
			guarded.Conn() // tells the guard that the effect can use the connection
			return effect(context.WithValue(ctx, effectKey{}, guarded))
		})
	}
	if err := held.enter(); err != nil {
		return dedup.Result[R]{}, err
	}
	defer held.mu.Unlock()
	return dedup.DoTx(ctx, d, held.tx, call, func(ctx context.Context, guarded pgx.Tx) (R, error) {
		return runInside(ctx, held, guarded, effect)
	})
}

// runInside runs the effect of a DoTx on a session's transaction. DoTx holds the session's lock;
// the effect uses the session on the call's own transaction.
func runInside[R any](ctx context.Context, s *session, guarded pgx.Tx, effect func(ctx context.Context) (R, error)) (result R, err error) {
	outer, floor, undone := s.tx, s.floor, s.undone
	s.tx, s.floor = guarded, len(s.saved)
	s.calls++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.calls--
		if s.left {
			err = errDone // leave closed the connection
		} else {
			err = s.leaveCall(ctx, undone, err)
		}
		s.tx, s.floor = outer, floor
	}()
	return effect(ctx)
}

// effectKey is the context key of an effect's pgx.Tx.
type effectKey struct{}

// pgxTx returns the transaction below tx, or the session if tx is an effect's handle. It takes no
// round trip.
func pgxTx(ctx context.Context, tx Tx) (pgx.Tx, *session, error) {
	if tx == nil {
		return nil, nil, invalidTx("is nil")
	}
	g := &probe{}
	switch _, err := tx.ExecContext(ctx, "", g); {
	case g.session != nil && errors.Is(err, errProbed):
		return nil, g.session, nil
	case g.session != nil:
		return nil, nil, err
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case errors.Is(err, sql.ErrTxDone):
		return nil, nil, invalidTx("has ended")
	case errors.Is(err, driver.ErrBadConn): // the connection is closed
		return nil, nil, &dedup.Error{Kind: dedup.ErrRestartTx, Err: pgconn.ErrConnClosed}
	case g.idle:
		return nil, nil, invalidTx("is a database or a connection without a transaction; begin one and pass it")
	case g.conn == nil:
		bad := invalidTx("is not a transaction of pgx's driver for database/sql; open the database with sqldedup.OpenDB or sql.Open(\"pgx\", …), and pass the *sql.Tx itself (the field Tx of gorm's PreparedStmtTX and bun's Tx)")
		bad.Err = err
		return nil, nil, bad
	}
	// Inside an effect on the same connection use the effect's transaction, which counts its
	// savepoints.
	if outer, ok := ctx.Value(effectKey{}).(pgx.Tx); ok && guard.ConnOf(outer) == g.conn {
		return outer, nil, nil
	}
	begun, known := g.conn.PgConn().CustomData()[begunKey].(context.Context)
	if said, ok := tx.(interface{ BegunWith() context.Context }); ok && !known {
		begun = said.BegunWith()
	}
	if begun != nil && begun.Done() != nil {
		const ends = "was begun with a context that can end, and database/sql would roll it back during the call; begin it with context.WithoutCancel(ctx)"
		if !known {
			return nil, nil, invalidTx(ends + "; only a database of sqldedup.OpenDB shows the context: with another, give gorm's WithContext no other context after that")
		}
		return nil, nil, invalidTx(ends)
	}
	return callersTx{g.conn, tx}, nil, nil
}

func invalidTx(reason string) *dedup.InvalidError {
	return &dedup.InvalidError{What: "call", Field: "tx", Reason: reason}
}

// probe is an argument with which pgx calls RewriteQuery before it sends a statement. It finds the
// connection.
type probe struct {
	conn    *pgx.Conn
	idle    bool     // set instead of conn: the connection is not in a transaction
	session *session // set instead of conn: the session of an effect's handle
}

var errProbed = errors.New("sqldedup: the connection is found")

// probeOf returns the probe if it is a statement's only argument.
func probeOf(args []any) (g *probe, ok bool) {
	if len(args) == 1 {
		g, ok = args[0].(*probe)
	}
	return g, ok
}

// RewriteQuery implements [pgx.QueryRewriter].
func (g *probe) RewriteQuery(_ context.Context, conn *pgx.Conn, _ string, _ []any) (string, []any, error) {
	if g.idle = conn.PgConn().TxStatus() == 'I'; !g.idle {
		g.conn = conn
	}
	return "", nil, errProbed
}

// callersTx is the caller's transaction as a pgx.Tx. Only the caller can end it.
type callersTx struct {
	conn *pgx.Conn
	tx   Tx
}

var errCallers error = &dedup.InvalidError{What: "call", Field: "tx", Reason: "belongs to database/sql; end it there"}

func (t callersTx) Begin(context.Context) (pgx.Tx, error) { return nil, errCallers }
func (t callersTx) Commit(context.Context) error          { return errCallers }
func (t callersTx) Rollback(context.Context) error        { return errCallers }
func (t callersTx) Conn() *pgx.Conn                       { return t.conn }

func (t callersTx) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	return t.conn.Exec(ctx, query, args...)
}

func (t callersTx) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	return t.conn.Query(ctx, query, args...)
}

func (t callersTx) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return t.conn.QueryRow(ctx, query, args...)
}

// SendBatch of an empty batch sends nothing. DoTx asks with it whether the transaction has ended.
func (t callersTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if b.Len() == 0 {
		if _, err := t.tx.ExecContext(ctx, "", &probe{}); errors.Is(err, sql.ErrTxDone) {
			return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
		}
	}
	return t.conn.SendBatch(ctx, b)
}

func (t callersTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	return t.conn.CopyFrom(ctx, table, columns, rows)
}

func (t callersTx) Prepare(ctx context.Context, name, query string) (*pgconn.StatementDescription, error) {
	return t.conn.Prepare(ctx, name, query)
}

// LargeObjects returns an unusable value: only pgx can make one, for its own transactions. The
// effect works on the caller's tx and does not call it.
func (t callersTx) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }
