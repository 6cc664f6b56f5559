// Package guard keeps an effect within its transaction. It gives the effect a pgx.Tx that cannot be
// ended, marks the effect's context, and afterwards checks the state of the transaction. It depends
// on pgx and on SQL's transaction control, but not on tool_dedup.
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

// guardedTx is the pgx.Tx of an effect. Everything works except for ending it: Commit and Rollback
// return ErrTxControl, and so does SQL with the same effect, before it is sent. Begin makes a
// savepoint.
//
// The guard stops mistakes of honest code. Conn stays reachable, so the state is also checked: the
// status of the connection's transaction before every statement, and the transaction's identity in
// the statement that writes the record.
//
// A LargeObjects value and the Conn are not closed with the effect, which must not keep them after
// it returns.
type guardedTx struct {
	tx     pgx.Tx     // nil before a deferred transaction has begun
	root   *guardedTx // the outermost transaction of the effect
	nested bool

	// The rest is used in the root only.

	depth     int                            // 1, or more inside other effects; 0 in a deferred one
	deferred  *deferredTx                    // nil if the transaction began earlier
	closed    atomic.Bool                    // the effect has returned
	refused   atomic.Bool                    // transaction control was tried
	connAsked atomic.Bool                    // the effect has the Conn, on which anything can be sent
	failed    atomic.Pointer[pgconn.PgError] // the last error of a statement, if it is known
}

var _ pgx.Tx = (*guardedTx)(nil)

// ready begins a deferred transaction, and returns an error if the statement must not be sent.
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

// allowed refuses transaction control, and every statement after the effect returned.
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

// ConnOf is tx.Conn without noting that the effect used it.
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

// mayEnd lets savepoints end. The outermost transaction returns ErrTxControl, except for a deferred
// Rollback after the effect returned.
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
	return notedBatch{e.tx.SendBatch(ctx, b), e}
}

func (e *guardedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	if err := e.ready(ctx, ""); err != nil {
		return 0, err
	}
	n, err := e.tx.CopyFrom(ctx, table, columns, rows)
	e.note(err)
	return n, err
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

// closedLargeObjects returns large objects of a closed transaction. pgx makes none without a
// transaction.
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

// failedRows are the rows of a statement that was not sent. Rows of pgx would panic in Scan.
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

// Owner identifies the call of an effect.
type Owner struct {
	Database                 string // as wire.Conn.Database names it
	Schema, Scope, Tool, Key string
}

// Effect is a running effect: its context, which distinguishes calls inside it from calls beside
// it, and its transaction. A Do inside it would wait for connections and twins that wait for the
// effect, and no deadlock detector sees that (measured: opposite nesting hung 10 of 10).
//
// It is one allocation together with its transaction.
type Effect struct {
	context.Context
	scope scope
	tx    guardedTx
}

// scope is the effect in contexts that derive from its own.
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

// Enter begins an effect of owner on tx. The caller must call Leave.
func Enter(ctx context.Context, owner Owner, tx pgx.Tx) *Effect {
	outer, _ := ctx.Value(scopeKey{}).(*scope)
	e := &Effect{Context: ctx, scope: scope{owner: owner, outer: outer}}
	e.tx.tx, e.tx.root, e.tx.depth = tx, &e.tx, Depth(tx)+1
	return e
}

// Tx returns the transaction for the effect.
func (e *Effect) Tx() pgx.Tx { return &e.tx }

// Leave ends the effect: its transaction and its context cannot be used any longer.
func (e *Effect) Leave() {
	e.tx.closed.Store(true)
	e.scope.ended.Store(true)
}

// Check examines the transaction of an effect that returned err. It returns err, or the reason why
// nothing of the effect may be committed. started is now() in its transaction. If it is zero, Check
// does not detect an effect that began another transaction. ErrTxEnded has precedence over every
// other error.
func (e *Effect) Check(ctx context.Context, started time.Time, err error) error {
	return e.tx.check(ctx, started, err)
}

// EndedTx reports whether an effect that panicked ended its transaction.
func (e *Effect) EndedTx(ctx context.Context, started time.Time) bool {
	return e.tx.check(ctx, started, errPanicked) == ErrTxEnded
}

// Depth returns the number of effects that contain tx.
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

// check is Check of the effect on e.
func (e *guardedTx) check(ctx context.Context, started time.Time, err error) error {
	pg := ConnOf(e).PgConn()
	switch {
	case !e.begun():
		return e.refusedControl(ctx, err)
	case pg.TxStatus() == 'I': // the last known state, even if the connection was lost or is busy since
		return ErrTxEnded
	case pg.IsClosed():
		return cmp.Or(err, e.lost())
	case pg.IsBusy():
		return cmp.Or(err, Misused(ctx, ErrTxBusy, nil))
	case e.connAsked.Load() && (err != nil || e.refused.Load() || wire.CheckSession(pg) != nil) && e.inOtherTx(ctx, started):
		return ErrTxEnded // if nothing is wrong, the record's statement finds this out
	case e.refused.Load():
		return e.refusedControl(ctx, err)
	case pg.TxStatus() == 'E':
		return cmp.Or(err, Misused(ctx, e.aborted(), nil))
	case err == nil:
		return wire.CheckSession(pg)
	}
	return err
}

// refusedControl returns the error of an effect that returned err and may have tried to end its
// transaction.
func (e *guardedTx) refusedControl(ctx context.Context, err error) error {
	if !e.refused.Load() {
		return err
	}
	return Misused(ctx, ErrTxControl, err)
}

// Misused returns the error of an effect that misused its transaction and returned err, which may
// be nil. If ctx ended, it returns the context's error, because that may have caused the misuse.
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

// aborted returns ErrTxAborted, with the ignored error if it is known.
func (e *guardedTx) aborted() error {
	if failed := e.failed.Load(); failed != nil {
		return fmt.Errorf("%w: %w", ErrTxAborted, failed)
	}
	return ErrTxAborted
}

// lost returns the error of an effect that did not report its lost connection. If the server ended
// the session because of a limit, it is that error, which is not transient: the effect would exceed
// the limit again.
func (e *guardedTx) lost() error {
	if failed := e.failed.Load(); failed != nil && wire.IsTxTimeout(failed) {
		return failed
	}
	return errConnLost
}

// errConnLost is the error of an effect that did not notice its lost connection.
var errConnLost = fmt.Errorf("dedup: the connection was lost inside the effect: %w", pgconn.ErrConnClosed)

// inOtherTx reports whether the connection is in another transaction than the one that began at
// started, which is not zero. An aborted transaction cannot be queried and counts as the same.
func (e *guardedTx) inOtherTx(ctx context.Context, started time.Time) bool {
	conn := ConnOf(e.tx)
	if started.IsZero() || conn.PgConn().TxStatus() != 'T' {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	var now time.Time
	err := conn.QueryRow(ctx, "SELECT (extract(epoch FROM pg_catalog.now()) * 1000000)::bigint").Scan(wire.Times(&now))
	return err == nil && !now.Equal(started)
}

// ErrInvalid matches every misuse of an effect's transaction in [errors.Is].
var ErrInvalid = errors.New("dedup: invalid")

// misuse is an ErrInvalid with a text.
type misuse struct{ text string }

func (e *misuse) Error() string { return "dedup: " + e.text }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *misuse) Is(target error) bool { return target == ErrInvalid }

var (
	// ErrTxControl: a COMMIT, ROLLBACK, BEGIN or other transaction-control statement was refused.
	// Returned by the methods of the effect's pgx.Tx, and by Check.
	ErrTxControl error = &misuse{"the transaction belongs to dedup: return nil to commit, an error to roll back"}

	// ErrTxAborted: the effect returned no error although one of its statements had failed.
	// Returned by Check.
	ErrTxAborted error = &misuse{"the effect ignored a failed statement; its transaction was rolled back"}

	// ErrTxBusy: the effect returned while a result set or batch was still open. Returned by Check.
	ErrTxBusy error = &misuse{"the effect left a result set open; close its rows before returning"}

	// ErrTxEnded: the effect ended the transaction past the guard. Further statements would be
	// committed one by one, so they return this error too. Returned by the methods of the effect's
	// pgx.Tx, and by Check.
	ErrTxEnded = errors.New("dedup: the transaction has been ended inside the effect")

	// errPanicked replaces the missing error of an effect that panicked.
	errPanicked = errors.New("dedup: the effect panicked")
)
