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

// Tx is an open transaction of database/sql: a *sql.Tx, or what hands a statement and its
// arguments on to one unchanged. The transaction of
//
//   - sqlx is its *sqlx.Tx, and that of ent its *ent.Tx with the feature sql/execquery;
//   - gorm is what gormdedup.DoTx passes;
//   - bun is the Tx of its bun.Tx.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// DoTx is [dedup.DoTx] in a transaction that database/sql has begun through pgx's driver. The
// effect writes through the caller's tx, or whatever its ORM has on it. Commit the transaction
// after a nil error and after [dedup.ErrRefused], and roll it back after any other. After
// [dedup.ErrRestartTx] run all of it again.
//
// Begin the transaction with context.WithoutCancel(ctx), unless tx is an effect's handle or begun
// on one. database/sql rolls back from a goroutine when the context of its transaction ends, on the
// connection that DoTx is using. A *sql.Tx does not say with which context it was begun. A tx that
// has a method BegunWith() context.Context does, and is a [dedup.InvalidError] if that can end.
//
// The effect must not end the transaction, and nothing is between it and the connection: DoTx
// finds out afterwards, and answers [dedup.ErrBroken]. A tx that is not open, or not one of pgx's
// driver, is a [dedup.InvalidError]; the other errors are those of dedup.DoTx.
func DoTx[R any](ctx context.Context, d *dedup.Deduper, tx Tx, call dedup.Call, effect func(ctx context.Context) (R, error)) (dedup.Result[R], error) {
	inner, held, err := pgxTx(ctx, tx)
	if err != nil {
		return dedup.Result[R]{}, err
	}
	if effect == nil { // which dedup.DoTx refuses
		return dedup.DoTx[R](ctx, d, callersTx{}, call, nil)
	}
	if held == nil {
		return dedup.DoTx(ctx, d, inner, call, func(ctx context.Context, guarded pgx.Tx) (R, error) {
			guarded.Conn() // the effect has the connection: so the guard asks what it did there
			return effect(context.WithValue(ctx, effectKey{}, guarded))
		})
	}
	if err := held.enter(); err != nil {
		return dedup.Result[R]{}, err
	}
	defer held.mu.Unlock()
	return dedup.DoTx(ctx, d, held.tx, call, func(ctx context.Context, guarded pgx.Tx) (R, error) {
		return inside(ctx, held, guarded, effect)
	})
}

// inside runs the effect of a DoTx on a session's transaction. The DoTx holds the session, and the
// effect has it on the call's own transaction.
func inside[R any](ctx context.Context, s *session, guarded pgx.Tx, effect func(ctx context.Context) (R, error)) (result R, err error) {
	outer, floor := s.tx, s.floor
	s.tx, s.floor = guarded, len(s.saved)
	s.calls++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.calls--
		if s.left {
			err = errDone // and the connection is closed
		} else {
			err = s.leaveCall(ctx, err)
		}
		s.tx, s.floor = outer, floor
	}()
	return effect(ctx)
}

// effectKey is the key of the pgx.Tx of the effect that a context belongs to.
type effectKey struct{}

// pgxTx returns the transaction below tx, or the session where tx is an effect's handle. It takes
// no round trip.
func pgxTx(ctx context.Context, tx Tx) (pgx.Tx, *session, error) {
	if tx == nil {
		return nil, nil, invalidTx("is nil")
	}
	g := &grab{}
	switch _, err := tx.ExecContext(ctx, "", g); {
	case g.session != nil && errors.Is(err, errGrabbed):
		return nil, g.session, nil
	case g.session != nil:
		return nil, nil, err
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case errors.Is(err, sql.ErrTxDone):
		return nil, nil, invalidTx("has ended")
	case errors.Is(err, driver.ErrBadConn): // the connection is closed
		return nil, nil, &dedup.Error{Answer: dedup.ErrRestartTx, Err: pgconn.ErrConnClosed}
	case g.idle:
		return nil, nil, invalidTx("is no open transaction, but a database or a connection; begin a transaction, and pass that")
	case g.conn == nil:
		bad := invalidTx("is no transaction of pgx's driver for database/sql: open the database with sqldedup.OpenDB, or sql.Open(\"pgx\", …), and pass the *sql.Tx itself; of gorm's PreparedStmtTX and bun's Tx that is the field Tx")
		bad.Err = err
		return nil, nil, bad
	}
	// Inside an effect on the same connection the transaction is the effect's: its savepoints are
	// counted.
	if outer, ok := ctx.Value(effectKey{}).(pgx.Tx); ok && guard.ConnOf(outer) == g.conn {
		return outer, nil, nil
	}
	if begun, ok := tx.(interface{ BegunWith() context.Context }); ok && begun.BegunWith().Done() != nil {
		return nil, nil, invalidTx("was begun with a context that can end, and database/sql rolls it back then while the call is using it; begin it with context.WithoutCancel(ctx)")
	}
	return callersTx{conn: g.conn}, nil, nil
}

func invalidTx(reason string) *dedup.InvalidError {
	return &dedup.InvalidError{What: "call", Field: "tx", Reason: reason}
}

// grab is an argument that pgx calls with the connection, before anything is sent.
type grab struct {
	conn    *pgx.Conn
	idle    bool     // in place of conn: the connection is in no transaction, and not the caller's
	session *session // in place of conn: that of an effect's handle
}

var errGrabbed = errors.New("sqldedup: the connection is found")

// grabOf returns the grab that is a statement's only argument.
func grabOf(args []any) (g *grab, ok bool) {
	if len(args) == 1 {
		g, ok = args[0].(*grab)
	}
	return g, ok
}

// RewriteQuery implements [pgx.QueryRewriter].
func (g *grab) RewriteQuery(_ context.Context, conn *pgx.Conn, _ string, _ []any) (string, []any, error) {
	if g.idle = conn.PgConn().TxStatus() == 'I'; !g.idle {
		g.conn = conn
	}
	return "", nil, errGrabbed
}

// callersTx is the caller's transaction as a pgx.Tx. It is the caller's to end.
type callersTx struct{ conn *pgx.Conn }

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

func (t callersTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.conn.SendBatch(ctx, b)
}

func (t callersTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	return t.conn.CopyFrom(ctx, table, columns, rows)
}

func (t callersTx) Prepare(ctx context.Context, name, query string) (*pgconn.StatementDescription, error) {
	return t.conn.Prepare(ctx, name, query)
}

// LargeObjects has none to give: only pgx makes them, of its own transactions. Nothing asks for
// them, since the effect works on the caller's tx.
func (t callersTx) LargeObjects() pgx.LargeObjects { return pgx.LargeObjects{} }
