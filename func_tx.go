package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// funcTx is the transaction of a BeginFunc. It begins and guards as an attempt does, and determines
// the outcome of COMMIT in the same way. It cannot settle a lost COMMIT without a record: BeginFunc
// then returns ErrOutcomeUnknown. BEGIN is deferred until fn uses the transaction: funcTx
// implements [guard.Deferred].
type funcTx struct {
	d               *Deduper
	ctx             context.Context
	on              *wire.Conn
	tx              pgx.Tx    // nil before BEGIN
	started         time.Time // now() in the transaction, which identifies it
	err             error     // the error of BEGIN
	preparedMissing bool      // the connection's prepared statements were gone once
}

// beginFunc makes one transaction. again is true if nothing was committed and a fresh transaction
// may succeed.
func (d *Deduper) beginFunc(ctx context.Context, attempt int, fn func(tx pgx.Tx) error) (again bool, err error) {
	pooled, err := d.acquire(ctx)
	if err != nil {
		return mayRetry(ctx, err), beginError(err)
	}
	defer d.release(ctx, pooled) // rolls back, after a panic too
	t := &funcTx{d: d, ctx: ctx, on: wire.On(pooled.Conn())}
	returned, refused, err := t.run(fn)
	switch {
	case t.err != nil: // BEGIN failed, so there is nothing to commit
		return mayRetry(ctx, t.err), t.err
	case err != nil:
		return t.failed(returned, err)
	case t.tx == nil:
		return false, nil
	case ctx.Err() != nil:
		return false, fmt.Errorf("dedup: before commit: %w", contextError(ctx))
	}
	return t.commit(attempt, returned, refused)
}

// run calls fn. err is nil if the transaction may be committed: fn returned nil, or the refusal of
// a call in the transaction.
func (t *funcTx) run(fn func(tx pgx.Tx) error) (returned error, refused *RefusedError, err error) {
	inner := guard.Defer(t.ctx, t)
	defer inner.Leave()
	returned = fn(inner.Tx())
	err = returned
	if refused = t.refusal(err); refused != nil {
		err = nil
	}
	return returned, refused, inner.Check(t.ctx, t.started, err)
}

// refusal returns the refusal in fn's error, if its record is in this transaction. It returns nil
// if the error also asks for a fresh transaction.
func (t *funcTx) refusal(err error) *RefusedError {
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || mayRetryEffect(err, t.on.PgConn().IsClosed()) {
		return nil
	}
	if in := refused.in; in == nil || in.on != t.on || !in.started.Equal(t.started) {
		return nil
	}
	return refused
}

// failed returns the error of a run that cannot be committed. err is fn's error or the guard's.
func (t *funcTx) failed(returned, err error) (again bool, _ error) {
	lost := t.on.PgConn().IsClosed()
	wire.DropUnusable(t.ctx, t.on.Conn(), err)
	switch {
	case err == guard.ErrTxEnded:
		return false, endedByFunc(returned)
	case lost && wire.IsTxTimeout(err):
		return false, tooSlow(err)
	case mayRetryEffect(err, lost):
		return true, err
	case err == returned:
		return false, unrecorded(err)
	case errors.Is(returned, ErrRefused): // which is not recorded
		err = fmt.Errorf("%w (the function returned: %s)", err, returned.Error())
	}
	if errors.Is(err, ErrInvalid) {
		err = misused(err)
	}
	return false, err
}

// endedByFunc is the error of a function that ended its transaction. BeginFunc does not call it
// again, because its writes may be committed.
func endedByFunc(returned error) error {
	if returned == nil {
		returned = guard.ErrTxEnded
	}
	return invalidEffect(returned, "ended the transaction of BeginFunc; return nil to commit it, an error to roll it back")
}

// commit sends COMMIT. In the same round trip it checks that the transaction is still the begun
// one, and that the refusal that fn returned is recorded: a savepoint may have undone its record.
func (t *funcTx) commit(attempt int, returned error, refused *RefusedError) (again bool, err error) {
	p := t.on.Pipeline()
	table.QueueSameTx(p, &t.started)
	if refused != nil {
		refused.in.table.QueueRefused(p, &refused.in.id, &refused.CreatedAt)
	}
	p.Queue(wire.Query{Text: "commit"}) // as text: fn may have discarded prepared statements
	var otherTx, undone bool
	outcome, err := t.d.sendCommit(t.ctx, t.on.Conn(), p, func() {
		p.Exec()
		if otherTx = p.Failed(); refused != nil {
			p.Exec()
			undone = !otherTx && p.Failed()
		}
	})
	checkFailed := wire.SQLState(err) == wire.CodeDivisionByZero
	switch {
	case outcome == wire.Committed, checkFailed && undone:
		return false, returned
	case outcome == wire.Unknown:
		return false, &Error{Kind: ErrOutcomeUnknown, Attempts: attempt, Err: err}
	case checkFailed && otherTx:
		return false, endedByFunc(nil)
	case wire.IsTxTimeout(err):
		return false, tooSlow(err)
	default:
		return wire.IsTransient(err), fmt.Errorf("dedup: committing: %w", redact(err))
	}
}

// Conn implements [guard.Deferred].
func (t *funcTx) Conn() *pgx.Conn { return t.on.Conn() }

// Tx implements [guard.Deferred].
func (t *funcTx) Tx() pgx.Tx { return t.tx }

// Begin implements [guard.Deferred].
func (t *funcTx) Begin(ctx context.Context) error {
	for t.tx == nil && t.err == nil {
		tx, started, err := t.d.table().Begin(ctx, t.on)
		t.begun(ctx, tx, started, err)
	}
	return t.err
}

// begun handles the reply to BEGIN. If started is set the transaction began, even if a later
// statement failed. If prepared statements were gone, BEGIN can be sent once more. After any other
// error begun closes the connection, because fn's statements would be committed one by one on it.
func (t *funcTx) begun(ctx context.Context, tx pgx.Tx, started time.Time, err error) {
	switch {
	case !started.IsZero():
		t.tx, t.started = tx, started
		return
	case wire.SQLState(err) == wire.CodePreparedMissing && !t.preparedMissing:
		t.preparedMissing = true
		wire.Rollback(ctx, t.on.Conn())
		t.on.InvalidateAfter(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	_ = t.on.Conn().Close(ctx)
	t.err = beginError(t.d.withHint(hintPooler(err)))
}

func beginError(err error) error { return fmt.Errorf("dedup: beginning the transaction: %w", err) }
