package dedup

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// effectTx is the pgx.Tx that an effect is handed. Everything works on it but
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
type effectTx struct {
	tx     pgx.Tx
	root   *effectTx // itself, in the outermost of one effect
	nested bool

	// The rest is used in the root only.

	depth   int                            // 1, or more inside other effects
	closed  atomic.Bool                    // the effect has returned
	refused atomic.Bool                    // transaction control was tried
	unseen  atomic.Bool                    // SQL may have been sent whose text was not seen
	failed  atomic.Pointer[pgconn.PgError] // the first error of a statement, where it was seen
}

var _ pgx.Tx = (*effectTx)(nil)

// guard makes of e the outermost transaction of an effect on tx.
func (e *effectTx) guard(tx pgx.Tx) *effectTx {
	e.tx, e.root, e.depth = tx, e, 1
	if outer, ok := tx.(*effectTx); ok {
		e.depth = outer.root.depth + 1
	}
	return e
}

// ready tells whether a statement may be sent.
func (e *effectTx) ready(sql string, args ...any) error {
	if e.root.closed.Load() {
		return pgx.ErrTxClosed
	}
	if isTxControl(sql) {
		e.root.refused.Store(true)
		return ErrTxControl
	}
	e.watch(args)
	if e.gone() {
		return errTxGone
	}
	return nil
}

// watch notes where isTxControl cannot be relied on: the text is rewritten before
// it is sent, or backslashes escape in every string.
func (e *effectTx) watch(args []any) {
	for _, arg := range args {
		if _, rewrites := arg.(pgx.QueryRewriter); rewrites {
			e.root.unseen.Store(true)
		}
	}
	if connOf(e.tx).PgConn().ParameterStatus("standard_conforming_strings") == "off" {
		e.root.unseen.Store(true)
	}
}

// errPanicked stands for the error of an effect that returned none.
var errPanicked = errors.New("dedup: the effect panicked")

// errTxGone is what statements answer once the transaction has been ended
// behind the library's back: sent now, they would commit by themselves.
var errTxGone = errors.New("dedup: the transaction has been ended inside the effect")

// connOf is tx.Conn without leaving a note that an effect asked for it.
func connOf(tx pgx.Tx) *pgx.Conn {
	for {
		e, ok := tx.(*effectTx)
		if !ok {
			return tx.Conn()
		}
		tx = e.tx
	}
}

// gone tells whether the connection is alive and outside any transaction.
func (e *effectTx) gone() bool {
	pg := connOf(e.tx).PgConn()
	return !pg.IsClosed() && pg.TxStatus() == 'I'
}

// verdict says in what state an effect that returned err left its transaction.
// Once the transaction is gone nothing else counts.
func (e *effectTx) verdict(ctx context.Context, started time.Time, err error) error {
	pg := connOf(e.tx).PgConn()
	switch {
	case pg.IsClosed():
		return orElse(err, e.lost())
	case pg.IsBusy():
		return orElse(err, ErrTxBusy)
	case pg.TxStatus() == 'I':
		return errTxGone
	case err != nil && e.unseen.Load() && e.swapped(ctx, started):
		return errTxGone
	case e.refused.Load() && err != nil && !errors.Is(err, ErrTxControl):
		// Not wrapped: it could be Final, and this call must not be recorded.
		return fmt.Errorf("%w (the effect returned: %s)", ErrTxControl, err.Error())
	case e.refused.Load():
		return orElse(err, ErrTxControl)
	case pg.TxStatus() == 'E':
		return orElse(err, e.aborted())
	case err == nil:
		return checkSession(pg)
	}
	return err
}

// aborted is ErrTxAborted with the error that was ignored, where it was seen.
func (e *effectTx) aborted() error {
	if failed := e.failed.Load(); failed != nil {
		return fmt.Errorf("%w: %w", ErrTxAborted, failed)
	}
	return ErrTxAborted
}

// lost is the end of an effect that did not tell of its connection's. Where the
// server ended the session because of a limit it is that, which is no fault that
// passes: the effect would meet the limit again.
func (e *effectTx) lost() error {
	if failed := e.failed.Load(); failed != nil && isTxTimeout(failed) {
		return failed
	}
	return errConnLost
}

// note keeps the first error of a statement, or the one that ended the session
// because of a limit.
func (e *effectTx) note(err error) {
	if err == nil {
		return
	}
	var server *pgconn.PgError
	switch {
	case !errors.As(err, &server):
	case isTxTimeout(server):
		e.root.failed.Store(server)
	default:
		e.root.failed.CompareAndSwap(nil, server)
	}
}

// notedRow notes the error that comes to light when its row is read.
type notedRow struct {
	pgx.Row
	e *effectTx
}

func (r notedRow) Scan(dest ...any) error {
	r.e.watchScan(dest)
	err := r.Row.Scan(dest...)
	r.e.note(err)
	return err
}

// notedRows notes the error that comes to light when its rows are read, and that
// its connection was asked for.
type notedRows struct {
	pgx.Rows
	e *effectTx
}

func (r notedRows) Err() error {
	err := r.Rows.Err()
	r.e.note(err)
	return err
}

func (r notedRows) Scan(dest ...any) error {
	r.e.watchScan(dest)
	return r.Rows.Scan(dest...)
}

// watchScan notes where pgx hands its own rows, which have a Conn, to the caller.
func (e *effectTx) watchScan(dest []any) {
	if len(dest) == 1 {
		if _, ok := dest[0].(pgx.RowScanner); ok {
			e.root.unseen.Store(true)
		}
	}
}

func (r notedRows) Conn() *pgx.Conn {
	r.e.root.unseen.Store(true)
	return r.Rows.Conn()
}

// errConnLost is the end of an effect that did not notice its connection's.
var errConnLost = fmt.Errorf("dedup: the connection was lost inside the effect: %w", pgconn.ErrConnClosed)

// swapped tells whether the connection is in another transaction than the one
// that started then. An aborted one cannot be asked and passes.
func (e *effectTx) swapped(ctx context.Context, started time.Time) bool {
	conn := connOf(e.tx)
	if conn.PgConn().TxStatus() != 'T' {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	var now time.Time
	err := conn.QueryRow(ctx, "SELECT pg_catalog.now()").Scan(&now)
	return err == nil && !now.Equal(started)
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func (e *effectTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := e.ready(""); err != nil {
		return nil, err
	}
	sub, err := e.tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &effectTx{tx: sub, root: e.root, nested: true}, nil
}

func (e *effectTx) Commit(ctx context.Context) error {
	if err := e.mayEnd(); err != nil {
		return err
	}
	return e.tx.Commit(ctx)
}

func (e *effectTx) Rollback(ctx context.Context) error {
	if err := e.mayEnd(); err != nil {
		return err
	}
	return e.tx.Rollback(ctx)
}

// mayEnd lets savepoints end. The outermost transaction answers ErrTxControl,
// but for a deferred Rollback after the effect has returned.
func (e *effectTx) mayEnd() error {
	switch {
	case e.root.closed.Load():
		return pgx.ErrTxClosed
	case !e.nested:
		e.root.refused.Store(true)
		return ErrTxControl
	case e.gone():
		return errTxGone
	}
	return nil
}

func (e *effectTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := e.ready(sql, args...); err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := e.tx.Exec(ctx, sql, args...)
	e.note(err)
	return tag, err
}

func (e *effectTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := e.ready(sql, args...); err != nil {
		return failedRows{err}, err
	}
	rows, err := e.tx.Query(ctx, sql, args...)
	e.note(err)
	return notedRows{rows, e}, err
}

func (e *effectTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := e.ready(sql, args...); err != nil {
		return failedRows{err}
	}
	return notedRow{e.tx.QueryRow(ctx, sql, args...), e}
}

func (e *effectTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := e.ready(sql); err != nil {
		return nil, err
	}
	return e.tx.Prepare(ctx, name, sql)
}

func (e *effectTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	err := e.ready("")
	for _, q := range b.QueuedQueries {
		if err != nil {
			break
		}
		err = e.ready(q.SQL, q.Arguments...)
	}
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	e.root.unseen.Store(true) // its rows have a Conn
	return e.tx.SendBatch(ctx, b)
}

func (e *effectTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	if err := e.ready(""); err != nil {
		return 0, err
	}
	return e.tx.CopyFrom(ctx, table, columns, rows)
}

func (e *effectTx) LargeObjects() pgx.LargeObjects {
	if e.root.closed.Load() {
		// pgx makes none but of a transaction: here is a closed one.
		b := &pgx.Batch{}
		b.BeginTx(pgx.TxOptions{})
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed).Tx().LargeObjects()
	}
	return e.tx.LargeObjects()
}

func (e *effectTx) Conn() *pgx.Conn {
	e.root.unseen.Store(true)
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
