// Package guard keeps an effect within its transaction: it hands out a pgx.Tx that cannot
// be ended, marks the effect's context, and says afterwards in what state the effect left
// its transaction. It knows pgx and SQL's transaction control, and nothing of tool_dedup.
package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

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
	tx     pgx.Tx     // nil before a deferred transaction has begun
	root   *guardedTx // itself, in the outermost of one effect
	nested bool

	// The rest is used in the root only.

	depth     int                            // 1, or more inside other effects; 0 in a deferred one
	deferred  *deferredTx                    // nil where the transaction has begun before
	closed    atomic.Bool                    // the effect has returned
	refused   atomic.Bool                    // transaction control was tried
	connAsked atomic.Bool                    // the effect has the Conn, on which anything can be sent
	failed    atomic.Pointer[pgconn.PgError] // the first error of a statement, where it was seen
}

var _ pgx.Tx = (*guardedTx)(nil)

// ready reports whether a statement may be sent, and begins a deferred transaction.
func (e *guardedTx) ready(ctx context.Context, sql string) error {
	if err := e.allowed(sql); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	if e.ended() {
		return ErrTxEnded
	}
	return nil
}

// allowed refuses transaction control, and everything once the effect has returned.
func (e *guardedTx) allowed(sql string) error {
	if e.root.closed.Load() {
		return pgx.ErrTxClosed
	}
	if sqllex.IsTxControl(sql) {
		e.root.refused.Store(true)
		return ErrTxControl
	}
	return nil
}

// ConnOf is tx.Conn without a note that the effect asked for it.
func ConnOf(tx pgx.Tx) *pgx.Conn {
	for {
		e, ok := tx.(*guardedTx)
		switch {
		case !ok:
			return tx.Conn()
		case !e.begun():
			return e.deferred.Conn()
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
	if err := e.ready(ctx, ""); err != nil {
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
	if err := e.ready(ctx, sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := e.tx.Exec(ctx, sql, args...)
	e.note(err)
	return tag, err
}

func (e *guardedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := e.ready(ctx, sql); err != nil {
		return failedRows{err}, err
	}
	rows, err := e.tx.Query(ctx, sql, args...)
	e.note(err)
	return notedRows{rows, e}, err
}

func (e *guardedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := e.ready(ctx, sql); err != nil {
		return failedRows{err}
	}
	return notedRow{e.tx.QueryRow(ctx, sql, args...), e}
}

func (e *guardedTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := e.ready(ctx, sql); err != nil {
		return nil, err
	}
	return e.tx.Prepare(ctx, name, sql)
}

func (e *guardedTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	var err error
	for _, q := range b.QueuedQueries {
		if err = e.allowed(q.SQL); err != nil {
			break
		}
	}
	if err == nil {
		err = e.ready(ctx, "")
	}
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return e.tx.SendBatch(ctx, b)
}

func (e *guardedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	if err := e.ready(ctx, ""); err != nil {
		return 0, err
	}
	return e.tx.CopyFrom(ctx, table, columns, rows)
}

func (e *guardedTx) LargeObjects() pgx.LargeObjects {
	if e.root.closed.Load() {
		return closedLargeObjects()
	}
	if e.beginNow(); !e.begun() {
		return closedLargeObjects()
	}
	return e.tx.LargeObjects()
}

// closedLargeObjects are those of a closed transaction. pgx makes none without a transaction.
func closedLargeObjects() pgx.LargeObjects {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(b, pgx.ErrTxClosed).Tx().LargeObjects()
}

func (e *guardedTx) Conn() *pgx.Conn {
	e.root.connAsked.Store(true)
	if !e.root.closed.Load() {
		e.beginNow()
	}
	if !e.begun() {
		return e.deferred.Conn()
	}
	return e.tx.Conn()
}

// failedRows are the rows of a statement that was not sent. Those of pgx panic when they are scanned.
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

// Owner is the call that an effect belongs to.
type Owner struct {
	Database                 string // as wire.Conn.Home names it
	Schema, Scope, Tool, Key string
}

// Effect is a running effect: the context that it is given, which sets calls inside it
// apart from calls beside it, and the transaction that it is handed. A Do inside it would wait
// for connections and twins that wait for the effect, and no deadlock detector sees that
// (measured: opposite nesting hung 10 of 10).
//
// It is one allocation with its transaction.
type Effect struct {
	context.Context
	scope scope
	tx    guardedTx
}

// scope is an effect as the contexts below it see it.
type scope struct {
	owner Owner
	outer *scope
	ended atomic.Bool
}

type scopeKey struct{}

// Value implements context.Context.
func (e *Effect) Value(key any) any {
	if key == (scopeKey{}) {
		return &e.scope
	}
	return e.Context.Value(key)
}

// Enter begins an effect of owner's on tx. It must be left.
func Enter(ctx context.Context, owner Owner, tx pgx.Tx) *Effect {
	outer, _ := ctx.Value(scopeKey{}).(*scope)
	e := &Effect{Context: ctx, scope: scope{owner: owner, outer: outer}}
	e.tx.tx, e.tx.root, e.tx.depth = tx, &e.tx, Depth(tx)+1
	return e
}

// Tx is the transaction for the effect.
func (e *Effect) Tx() pgx.Tx { return &e.tx }

// Leave ends the effect: its transaction and its context serve no longer.
func (e *Effect) Leave() {
	e.tx.closed.Store(true)
	e.scope.ended.Store(true)
}

// Verdict judges an effect that returned err by the state in which it left the
// transaction that started then: err, or why nothing of it may be committed. Once it is
// ErrTxEnded nothing else counts.
func (e *Effect) Verdict(ctx context.Context, started time.Time, err error) error {
	return e.tx.verdict(ctx, started, err)
}

// EndedTx reports whether an effect that panicked had ended its transaction.
func (e *Effect) EndedTx(ctx context.Context, started time.Time) bool {
	return e.tx.verdict(ctx, started, errPanicked) == ErrTxEnded
}

// Depth is how many effects tx is inside of.
func Depth(tx pgx.Tx) int {
	if guarded, ok := tx.(*guardedTx); ok {
		return guarded.root.depth
	}
	return 0
}

// Inside reports whether ctx belongs to an effect that has not returned.
func Inside(ctx context.Context) bool {
	inner, _ := ctx.Value(scopeKey{}).(*scope)
	for ; inner != nil; inner = inner.outer {
		if !inner.ended.Load() {
			return true
		}
	}
	return false
}

// InsideOwn reports whether ctx belongs to an effect of this owner that has not returned.
func InsideOwn(ctx context.Context, owner Owner) bool {
	inner, _ := ctx.Value(scopeKey{}).(*scope)
	for ; inner != nil; inner = inner.outer {
		if inner.owner == owner && !inner.ended.Load() {
			return true
		}
	}
	return false
}

// verdict says in what state an effect that returned err left its transaction.
// Once the transaction is gone nothing else counts.
func (e *guardedTx) verdict(ctx context.Context, started time.Time, err error) error {
	pg := ConnOf(e).PgConn()
	switch {
	case !e.begun():
		return e.refusedControl(ctx, err)
	case pg.IsClosed():
		return cmp.Or(err, e.lost())
	case pg.IsBusy():
		return cmp.Or(err, Misused(ctx, ErrTxBusy, nil))
	case pg.TxStatus() == 'I':
		return ErrTxEnded
	case err != nil && e.connAsked.Load() && e.swapped(ctx, started):
		return ErrTxEnded
	case e.refused.Load():
		return e.refusedControl(ctx, err)
	case pg.TxStatus() == 'E':
		return cmp.Or(err, Misused(ctx, e.aborted(), nil))
	case err == nil:
		return wire.CheckSession(pg)
	}
	return err
}

// refusedControl is the end of an effect that returned err and may have tried to end its
// transaction.
func (e *guardedTx) refusedControl(ctx context.Context, err error) error {
	if !e.refused.Load() {
		return err
	}
	return Misused(ctx, ErrTxControl, err)
}

// Misused is the error of an effect that misused its transaction and returned err, which may be
// nil. If ctx has ended that is the answer and not the misuse, which it may have led to.
func Misused(ctx context.Context, misuse, err error) error {
	ended := ctx.Err() != nil
	switch {
	case errors.Is(err, misuse), ended && wire.IsContextError(err):
		return err
	case ended:
		misuse = fmt.Errorf("dedup: before the end of the effect: %w", ctx.Err())
		if cause := context.Cause(ctx); cause != ctx.Err() {
			misuse = fmt.Errorf("%w: %w", misuse, cause)
		}
	}
	if err == nil {
		return misuse
	}
	// Not wrapped: it could be Final, and this call must not be recorded.
	return fmt.Errorf("%w (the effect returned: %s)", misuse, err.Error())
}

// aborted is ErrTxAborted with the error that was ignored, where it was seen.
func (e *guardedTx) aborted() error {
	if failed := e.failed.Load(); failed != nil {
		return fmt.Errorf("%w: %w", ErrTxAborted, failed)
	}
	return ErrTxAborted
}

// lost is the end of an effect that did not report its connection's. Where the
// server ended the session because of a limit it is that, which is no fault that
// passes: the effect would meet the limit again.
func (e *guardedTx) lost() error {
	if failed := e.failed.Load(); failed != nil && wire.IsTxTimeout(failed) {
		return failed
	}
	return errConnLost
}

// errConnLost is the end of an effect that did not notice its connection's.
var errConnLost = fmt.Errorf("dedup: the connection was lost inside the effect: %w", pgconn.ErrConnClosed)

// swapped reports whether the connection is in another transaction than the one
// that started then. An aborted one cannot be asked and passes.
func (e *guardedTx) swapped(ctx context.Context, started time.Time) bool {
	conn := ConnOf(e.tx)
	if conn.PgConn().TxStatus() != 'T' {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	var now time.Time
	err := conn.QueryRow(ctx, "SELECT (extract(epoch FROM pg_catalog.now()) * 1000000)::bigint").Scan(wire.Times(&now))
	return err == nil && !now.Equal(started)
}

// ErrInvalid is what every misuse of an effect's transaction is, by [errors.Is].
var ErrInvalid = errors.New("dedup: invalid")

// misuse is one of them.
type misuse struct{ text string }

func (e *misuse) Error() string { return "dedup: " + e.text }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *misuse) Is(target error) bool { return target == ErrInvalid }

var (
	// ErrTxControl: a COMMIT, ROLLBACK, BEGIN or other transaction-control statement was
	// refused. Returned by the methods of the effect's pgx.Tx, and by Verdict.
	ErrTxControl error = &misuse{"the transaction belongs to dedup: return nil to commit, an error to roll back"}

	// ErrTxAborted: the effect returned no error although one of its statements had failed.
	// Returned by Verdict.
	ErrTxAborted error = &misuse{"the effect ignored a failed statement; its transaction was rolled back"}

	// ErrTxBusy: the effect returned while a result set or batch was still open. Returned
	// by Verdict.
	ErrTxBusy error = &misuse{"the effect left a result set open; close its rows before returning"}

	// ErrTxEnded: the transaction was ended inside the effect, past the guard. Statements
	// that are sent now would commit by themselves, so they answer this too. Returned by
	// the methods of the effect's pgx.Tx, and by Verdict.
	ErrTxEnded = errors.New("dedup: the transaction has been ended inside the effect")

	// errPanicked stands for the error of an effect that returned none.
	errPanicked = errors.New("dedup: the effect panicked")
)
