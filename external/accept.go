package external

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Accept writes the intent into the caller's transaction, in one round trip, and returns
// where the operation stands: a transactional outbox. What it is to do is done after the
// caller has committed, by [Tools.Recover], or by a job that [Options.Enqueue] puts beside
// it. What the application writes before anything is sent, it writes in the same transaction.
//
// It works behind a savepoint: where it fails, nothing of it is left in tx. An operation that somebody
// else has claimed and not committed yet is a [dedup.ErrInFlight], and tx stays usable.
// Where the table is locked, by CREATE INDEX say, it waits for as long as ctx and the session's lock_timeout
// allow. [dedup.ErrRestartTx] means that the whole transaction has to be run again. A key that was used with
// other input is a [dedup.ErrKeyReused], and a parked operation a *[ParkedError].
func (h *Handle[In, Out]) Accept(ctx context.Context, tx pgx.Tx, call dedup.Call, in In) (Operation, error) {
	o, err := h.ask(call, in)
	if err != nil {
		return Operation{}, err
	}
	if tx == nil {
		return Operation{}, &dedup.InvalidError{What: "call", Field: "tx", Missing: true, Reason: "must not be nil"}
	}
	if begins := guard.DeferredOf(tx); begins != nil { // the first statement in a BeginFunc
		if err := begins.Begin(ctx); err != nil {
			return Operation{}, h.x.declined(o, err)
		}
	}
	// Past the guard of an effect of package dedup: what is sent here ends no transaction.
	conn := guard.ConnOf(tx)
	if conn == nil || conn.PgConn().TxStatus() != 'T' {
		return Operation{}, &dedup.InvalidError{What: "call", Field: "tx", Reason: "is not open, or one of its statements has failed"}
	}
	seen, err := h.x.accept(ctx, conn, o)
	if err == nil && seen.ended() {
		if _, err = h.x.forget(ctx, conn, seen.row); err == nil { // where it is not deleted, somebody else may have done so
			seen, err = h.x.accept(ctx, conn, o)
		}
	}
	if err != nil {
		return Operation{}, h.x.declined(o, err)
	}
	r := seen.row
	switch {
	case seen.rec != nil && !seen.rec.Forgotten() && seen.rec.Fingerprint != o.fingerprint:
		return Operation{}, o.reused(seen.rec.ArgDigests, seen.rec.CreatedAt)
	case r == nil && seen.rec != nil: // its row is swept
		op := none(o.Identity)
		op.State, op.Now = Done, seen.rec.SeenAt
		return op, nil
	case r == nil:
		return Operation{}, o.answer(dedup.ErrRestartTx, errors.New("a twin was accepted meanwhile"))
	case seen.ended():
		return Operation{}, withoutRecord(r)
	case [32]byte(r.fingerprint) != o.fingerprint:
		return Operation{}, o.reused(r.argDigests, r.createdAt)
	case r.state == Parked:
		return Operation{}, &ParkedError{r.operation()}
	case seen.mine && h.x.opts.Enqueue != nil:
		return r.operation(), h.x.enqueue(ctx, tx, conn, r.operation())
	}
	return r.operation(), nil
}

// accept looks and inserts. It gives up soon where it waits for a lock, which is a twin's; where it is another one,
// such as that of the table's growth, it waits for as long as the caller's session and ctx allow.
func (x *Tools) accept(ctx context.Context, conn *pgx.Conn, o *ask) (seen sight, err error) {
	seen, err = x.tryAccept(ctx, conn, o, table.RowTimeout)
	if wire.SQLState(err) == wire.CodeLockNotAvailable && !x.metTwin(err) && conn.PgConn().TxStatus() == 'T' {
		return x.tryAccept(ctx, conn, o, 0)
	}
	return seen, err
}

const savepoint, release = "SAVEPOINT tool_effect", "RELEASE SAVEPOINT tool_effect"

// tryAccept does it behind a savepoint, which stays open for a job that is to be put beside a new row.
func (x *Tools) tryAccept(ctx context.Context, conn *pgx.Conn, o *ask, limit time.Duration) (seen sight, err error) {
	seen.began = time.Now()
	b, before, err := x.bounded(ctx, conn, conn.Config(), limit, savepoint, x.sql.accept,
		o.Scope, o.Tool, o.Key, o.fingerprint[:], o.argDigests, o.input)
	answered := 0
	if err == nil {
		if x.opts.Enqueue == nil {
			b.Queue(release)
		}
		answered, err = seen.read(conn.SendBatch(ctx, b), before)
	}
	broken := conn.PgConn().TxStatus() == 'E'
	switch {
	case err == nil && !seen.mine && x.opts.Enqueue != nil:
		_, err = conn.Exec(ctx, release)
	case err != nil && broken && answered > 0:
		if left := undo(ctx, conn); left != nil {
			return seen, o.answer(dedup.ErrRestartTx, errors.Join(err, left))
		}
	case err != nil && broken && dedup.IsTransient(err): // before there was a savepoint
		return seen, o.answer(dedup.ErrRestartTx, err)
	case err != nil && broken:
		return seen, fmt.Errorf("%w (the transaction is aborted; roll it back)", err)
	}
	return seen, err
}

// enqueue puts a job beside a new row. Where that fails, nothing of both is left.
func (x *Tools) enqueue(ctx context.Context, tx pgx.Tx, conn *pgx.Conn, op Operation) (err error) {
	written := false
	defer func() { // past a panic too
		if !written {
			err = errors.Join(err, undo(ctx, conn))
		}
	}()
	if err := x.opts.Enqueue(ctx, tx, op); err != nil {
		return err
	}
	written = true
	_, err = conn.Exec(ctx, release)
	return failed("accepting", err)
}

// undo takes back what was written behind the savepoint, and gives that up. It goes on after
// the caller's context: what it leaves could be committed.
func undo(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	if conn.PgConn().IsBusy() { // with rows that Enqueue has left open: nothing may be committed
		_ = conn.Close(ctx)
	}
	_, err := conn.Exec(ctx, "ROLLBACK TO "+savepoint+"; "+release)
	return err
}

// declined is the answer to a failure that has left the caller's transaction as it was, or
// that asks for a new one.
func (x *Tools) declined(o *ask, err error) error {
	if errors.Is(err, dedup.ErrRestartTx) {
		return err
	}
	if x.metTwin(err) {
		return o.answer(dedup.ErrInFlight, err)
	}
	switch wire.SQLState(err) {
	case wire.CodeSerialization, wire.CodeDeadlock, wire.CodeLockNotAvailable:
		return o.answer(dedup.ErrRestartTx, err)
	}
	return failed("accepting", err)
}
