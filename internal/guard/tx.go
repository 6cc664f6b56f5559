package guard

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tooldedup/dedup/internal/sqllex"
	"github.com/tooldedup/dedup/internal/wire"
)

// guardedTx is the pgx.Tx that an effect is handed. Everything works on it but
// ending it: Commit and Rollback answer ErrTxControl, and so does SQL that
// would do the same, before it is sent. Begin gives a savepoint.
//
// What is refused here is what honest code does by mistake. Conn stays
// reachable, so what counts is checked afterwards: the connection's transaction
// status before every statement, and the transaction's name in the statement
// that writes the record.
//
// Of what it hands out, a LargeObjects value and the Conn are not closed with it:
// they must not be kept after the effect has returned.
type guardedTx struct {
	tx     pgx.Tx
	root   *guardedTx // itself, in the outermost of one effect
	nested bool

	// The rest is used in the root only.

	depth     int                            // 1, or more inside other effects
	closed    atomic.Bool                    // the effect has returned
	refused   atomic.Bool                    // transaction control was tried
	connAsked atomic.Bool                    // the effect has the Conn, on which anything can be sent
	failed    atomic.Pointer[pgconn.PgError] // the first error of a statement, where it was seen
}

var _ pgx.Tx = (*guardedTx)(nil)

// ready reports whether a statement may be sent.
func (e *guardedTx) ready(sql string) error {
	if e.root.closed.Load() {
		return pgx.ErrTxClosed
	}
	if sqllex.IsTxControl(sql) {
		e.root.refused.Store(true)
		return ErrTxControl
	}
	if e.ended() {
		return ErrTxEnded
	}
	return nil
}

// ConnOf is tx.Conn without a note that the effect asked for it.
func ConnOf(tx pgx.Tx) *pgx.Conn {
	for {
		e, ok := tx.(*guardedTx)
		if !ok {
			return tx.Conn()
		}
		tx = e.tx
	}
}

// ended reports whether the connection is alive and outside any transaction.
func (e *guardedTx) ended() bool {
	pg := ConnOf(e.tx).PgConn()
	return !pg.IsClosed() && pg.TxStatus() == 'I'
}

// note keeps the first error of a statement, or the one that ended the session
// because of a limit.
func (e *guardedTx) note(err error) {
	if err == nil {
		return
	}
	var server *pgconn.PgError
	switch {
	case !errors.As(err, &server):
	case wire.IsTxTimeout(server):
		e.root.failed.Store(server)
	default:
		e.root.failed.CompareAndSwap(nil, server)
	}
}

// notedRow notes the error that comes to light when its row is read.
type notedRow struct {
	pgx.Row
	e *guardedTx
}

func (r notedRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	r.e.note(err)
	return err
}

// notedRows notes the error that comes to light when its rows are read, and that
// its connection was asked for.
type notedRows struct {
	pgx.Rows
	e *guardedTx
}

func (r notedRows) Err() error {
	err := r.Rows.Err()
	r.e.note(err)
	return err
}

func (r notedRows) Conn() *pgx.Conn {
	r.e.root.connAsked.Store(true)
	return r.Rows.Conn()
}

func (e *guardedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := e.ready(""); err != nil {
		return nil, err
	}
	sub, err := e.tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &guardedTx{tx: sub, root: e.root, nested: true}, nil
}

func (e *guardedTx) Commit(ctx context.Context) error {
	if err := e.mayEnd(); err != nil {
		return err
	}
	return e.tx.Commit(ctx)
}

func (e *guardedTx) Rollback(ctx context.Context) error {
	if err := e.mayEnd(); err != nil {
		return err
	}
	return e.tx.Rollback(ctx)
}

// mayEnd lets savepoints end. The outermost transaction answers ErrTxControl,
// but for a deferred Rollback after the effect has returned.
func (e *guardedTx) mayEnd() error {
	switch {
	case e.root.closed.Load():
		return pgx.ErrTxClosed
	case !e.nested:
		e.root.refused.Store(true)
		return ErrTxControl
	case e.ended():
		return ErrTxEnded
	}
	return nil
}

func (e *guardedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := e.ready(sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := e.tx.Exec(ctx, sql, args...)
	e.note(err)
	return tag, err
}

func (e *guardedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := e.ready(sql); err != nil {
		return failedRows{err}, err
	}
	rows, err := e.tx.Query(ctx, sql, args...)
	e.note(err)
	return notedRows{rows, e}, err
}

func (e *guardedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := e.ready(sql); err != nil {
		return failedRows{err}
	}
	return notedRow{e.tx.QueryRow(ctx, sql, args...), e}
}

func (e *guardedTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := e.ready(sql); err != nil {
		return nil, err
	}
	return e.tx.Prepare(ctx, name, sql)
}

func (e *guardedTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	err := e.ready("")
	for _, q := range b.QueuedQueries {
		if err != nil {
			break
		}
		err = e.ready(q.SQL)
	}
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return e.tx.SendBatch(ctx, b)
}

func (e *guardedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	if err := e.ready(""); err != nil {
		return 0, err
	}
	return e.tx.CopyFrom(ctx, table, columns, rows)
}

func (e *guardedTx) LargeObjects() pgx.LargeObjects {
	if e.root.closed.Load() {
		// pgx makes none but of a transaction: here is a closed one.
		b := &pgx.Batch{}
		b.BeginTx(pgx.TxOptions{})
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed).Tx().LargeObjects()
	}
	return e.tx.LargeObjects()
}

func (e *guardedTx) Conn() *pgx.Conn {
	e.root.connAsked.Store(true)
	return e.tx.Conn()
}

// failedRows are the rows of a statement that was not sent.
type failedRows struct{ err error }

func (r failedRows) Close()                                       {}
func (r failedRows) Err() error                                   { return r.err }
func (r failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r failedRows) Next() bool                                   { return false }
func (r failedRows) Scan(...any) error                            { return r.err }
func (r failedRows) Values() ([]any, error)                       { return nil, r.err }
func (r failedRows) RawValues() [][]byte                          { return nil }
func (r failedRows) Conn() *pgx.Conn                              { return nil }
func (r failedRows) TypeMap() *pgtype.Map                         { return nil }
