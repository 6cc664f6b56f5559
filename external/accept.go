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

// Accept writes an operation into the caller's transaction, in one round trip, and returns it: a
// transactional outbox. After the caller has committed, [Tools.Recover] or a job that
// [Options.Enqueue] inserted makes the attempt. The application's own writes that must precede the
// attempt belong into the same transaction.
//
// tx must be of the database of the Deduper's pool, under the same host, port and name: only there
// is the operation found again. Any other tx is a [dedup.ErrInvalid], and nothing is written.
//
// Accept uses a savepoint: after an error, nothing of it is left in tx. It returns
// [dedup.ErrInFlight] if another transaction has claimed the operation and not committed; tx stays
// usable. If the table is locked, for example by CREATE INDEX, it waits as long as ctx and the
// session's lock_timeout allow. After [dedup.ErrRestartTx] run the whole transaction again. A key
// that was used with other input is a [dedup.ErrKeyReused], and a parked operation a
// *[ParkedError].
func (h *Handle[In, Out]) Accept(ctx context.Context, tx pgx.Tx, call dedup.Call, in In) (Operation, error) {
	c, err := h.check(call, in)
	if err != nil {
		return Operation{}, err
	}
	if tx == nil {
		return Operation{}, &dedup.InvalidError{What: "call", Field: "tx", Missing: true, Reason: "must not be nil"}
	}
	if begins := guard.DeferredOf(tx); begins != nil { // BeginFunc sends BEGIN with the first statement
		if err := begins.Begin(ctx); err != nil {
			return Operation{}, h.x.acceptError(c, err)
		}
	}
	// The guard of an effect is bypassed: the statements below do not end the transaction.
	conn := guard.ConnOf(tx)
	if conn == nil || conn.PgConn().TxStatus() != 'T' {
		return Operation{}, &dedup.InvalidError{What: "call", Field: "tx", Reason: "is not open, or one of its statements has failed"}
	}
	if err := h.x.checkDatabase(conn); err != nil {
		return Operation{}, err
	}
	seen, err := h.x.accept(ctx, conn, c)
	if err == nil && seen.ended() {
		if _, err = h.x.forget(ctx, conn, seen.row); err == nil { // false if another process deleted it
			seen, err = h.x.accept(ctx, conn, c)
		}
	}
	if err == nil {
		err = seen.unread
	}
	if err != nil {
		return Operation{}, h.x.acceptError(c, err)
	}
	r := seen.row
	switch {
	case seen.rec != nil && !seen.rec.Forgotten() && !seen.rec.Accepts(c.fingerprint):
		return Operation{}, c.reused(seen.rec.ArgDigests, seen.rec.CreatedAt)
	case r == nil && seen.rec != nil: // the row was deleted before the record
		op := none(c.Identity)
		op.State, op.Now = StateDone, seen.rec.SeenAt
		return op, nil
	case r == nil:
		return Operation{}, c.dedupError(dedup.ErrRestartTx, errors.New("a twin was accepted meanwhile"))
	case seen.ended():
		return Operation{}, withoutRecord(r)
	case !r.accepts(c.fingerprint):
		return Operation{}, c.reused(r.argDigests, r.createdAt)
	case r.state == StateParked:
		return Operation{}, &ParkedError{r.operation()}
	case seen.inserted && h.x.opts.Enqueue != nil:
		return r.operation(), h.x.enqueue(ctx, tx, conn, r.operation())
	}
	return r.operation(), nil
}

// checkDatabase refuses a transaction of another database than the pool's. The operation would wait
// there for ever: Advance, Recover and Status read the pool's database only.
func (x *Tools) checkDatabase(conn *pgx.Conn) error {
	if wire.On(conn).Database() == x.database {
		return nil
	}
	// A BeforeConnect may choose a host for each connection. Then only the database's name counts.
	config := x.pool.Config()
	if config.BeforeConnect != nil && conn.Config().Database == config.ConnConfig.Database {
		return nil
	}
	return &dedup.InvalidError{
		What: "call", Field: "tx",
		Reason: "is not of the database of the Deduper's pool, by host, port and name, and nothing would carry the operation out; begin it in that pool, or in one with the same address",
	}
}

// accept reads and inserts. It waits only briefly for a twin's lock. For any other lock, such as
// that of extending the table, it waits as long as the caller's session and ctx allow.
func (x *Tools) accept(ctx context.Context, conn *pgx.Conn, c *checkedCall) (seen claimResult, err error) {
	seen, err = x.tryAccept(ctx, conn, c, table.RowTimeout)
	if seen.cancelled && conn.PgConn().TxStatus() == 'T' {
		seen, err = x.tryAccept(ctx, conn, c, table.RowTimeout)
	}
	if wire.SQLState(err) == wire.CodeLockNotAvailable && !x.blockedByTwin(err) && conn.PgConn().TxStatus() == 'T' {
		return x.tryAccept(ctx, conn, c, 0)
	}
	return seen, err
}

const savepoint, release = "SAVEPOINT tool_effect", "RELEASE SAVEPOINT tool_effect"

// tryAccept reads and inserts behind a savepoint. If Enqueue is set and the row is new, the
// savepoint stays open for the job.
func (x *Tools) tryAccept(ctx context.Context, conn *pgx.Conn, c *checkedCall, limit time.Duration) (seen claimResult, err error) {
	seen.began = time.Now()
	p, err := x.bounded(ctx, conn, limit, 0, savepoint, x.sql.accept,
		c.Scope, c.Tool, c.Key, c.fingerprint[:], c.argDigests, c.input)
	inSavepoint := false
	if err == nil {
		if x.opts.Enqueue == nil {
			p.Ignore(wire.NewQuery(release))
		}
		err = seen.read(ctx, p, limit)
		inSavepoint = p.Succeeded() > 0
	}
	wire.On(conn).InvalidateAfter(err)
	broken := conn.PgConn().TxStatus() == 'E'
	switch {
	case err == nil && !seen.inserted && x.opts.Enqueue != nil:
		_, err = conn.Exec(ctx, release)
	case err != nil && broken && inSavepoint:
		if left := undo(ctx, conn); left != nil {
			return seen, c.dedupError(dedup.ErrRestartTx, errors.Join(err, left))
		}
	case err != nil && broken && dedup.IsTransient(err): // failed before the savepoint
		return seen, c.dedupError(dedup.ErrRestartTx, err)
	case err != nil && broken:
		return seen, fmt.Errorf("%w (the transaction is aborted; roll it back)", err)
	}
	return seen, err
}

// enqueue calls Enqueue for a new row. If it fails, it undoes the row too.
func (x *Tools) enqueue(ctx context.Context, tx pgx.Tx, conn *pgx.Conn, op Operation) (err error) {
	written := false
	defer func() { // runs after a panic too
		if !written {
			err = errors.Join(err, undo(ctx, conn))
		}
	}()
	if err := x.opts.Enqueue(ctx, tx, op); err != nil {
		return err
	}
	written = true
	_, err = conn.Exec(ctx, release)
	return wrap("accepting", err)
}

// undo rolls back to the savepoint and releases it. It ignores the end of the caller's context: the
// caller could commit a row that is left.
func undo(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	if conn.PgConn().IsBusy() { // Enqueue left rows open; closing prevents a commit
		_ = conn.Close(ctx)
	}
	_, err := conn.Exec(ctx, "ROLLBACK TO "+savepoint+"; "+release)
	return err
}

// acceptError returns the error of Accept for a failed statement: to restart the transaction, in
// flight, or the database's.
func (x *Tools) acceptError(c *checkedCall, err error) error {
	if errors.Is(err, dedup.ErrRestartTx) {
		return err
	}
	if x.blockedByTwin(err) {
		return c.dedupError(dedup.ErrInFlight, err)
	}
	switch wire.SQLState(err) {
	case wire.CodeSerialization, wire.CodeDeadlock, wire.CodeLockNotAvailable:
		return c.dedupError(dedup.ErrRestartTx, err)
	}
	return wrap("accepting", err)
}
