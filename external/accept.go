package external

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/wire"
)

// Accept writes the intent into the caller's transaction, in one round trip, and returns
// where the operation stands: a transactional outbox. What it is to do is done after the
// caller has committed, by [Tools.Recover], or by a job that [Options.Enqueue] puts beside
// it. Begin is run in tx.
//
// It works behind a savepoint: where it fails, nothing of it is left in tx. An operation that somebody else has claimed and not committed
// yet is a [dedup.ErrInFlight], and tx stays usable. [dedup.ErrRestartTx] means that the whole
// transaction has to be run again. A key that was used with other input is a
// [dedup.ErrKeyReused], and a parked operation a *[ParkedError].
func (h *Handle[In, Out]) Accept(ctx context.Context, tx pgx.Tx, call dedup.Call, in In) (_ Operation, err error) {
	o, err := h.ask(call, in)
	if err != nil {
		return Operation{}, err
	}
	if tx == nil {
		return Operation{}, &dedup.InvalidError{What: "call", Field: "tx", Reason: "must not be nil"}
	}
	// Past the guard of an effect of package dedup: what is sent here ends no transaction.
	conn := guard.ConnOf(tx)
	if conn == nil || conn.PgConn().TxStatus() != 'T' {
		return Operation{}, &dedup.InvalidError{What: "call", Field: "tx", Reason: "is not open, or one of its statements has failed"}
	}
	seen, err := h.tryAccept(ctx, conn, o)
	if err == nil && seen.row != nil && seen.row.state == Done && (seen.rec == nil || seen.rec.Forgotten()) {
		var tag pgconn.CommandTag
		if tag, err = conn.Exec(ctx, h.x.sql().forgetOne, mine(seen.row)...); err == nil && tag.RowsAffected() > 0 {
			seen, err = h.tryAccept(ctx, conn, o)
		}
	}
	if err != nil {
		return Operation{}, declined(o, err)
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
	case [32]byte(r.fingerprint) != o.fingerprint:
		return Operation{}, o.reused(r.argDigests, r.createdAt)
	case r.state == Parked:
		return Operation{}, &ParkedError{r.operation()}
	case !seen.mine || !h.writes():
		return r.operation(), nil
	}
	op := r.operation()
	written := false
	defer func() { // past a panic too
		if !written {
			err = errors.Join(err, undo(ctx, conn))
		}
	}()
	if err := h.write(ctx, tx, o, op); err != nil {
		return Operation{}, err
	}
	written = true
	_, err = conn.Exec(ctx, release)
	return op, failed("accepting", err)
}

// undo takes back what was written behind the savepoint, and gives that up. It goes on after
// the caller's context: what it leaves could be committed.
func undo(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	if conn.PgConn().IsBusy() { // with rows that Begin has left open: nothing may be committed
		_ = conn.Close(ctx)
	}
	_, err := conn.Exec(ctx, "ROLLBACK TO SAVEPOINT tool_effect; "+release)
	return err
}

// writes reports whether an accepted operation brings anything beside its row.
func (h *Handle[In, Out]) writes() bool { return h.t.begin != nil || h.x.opts.Enqueue != nil }

// write writes that in the caller's transaction.
func (h *Handle[In, Out]) write(ctx context.Context, tx pgx.Tx, o *ask, op Operation) error {
	if h.t.begin != nil {
		if err := h.t.begin(ctx, tx, []byte(o.input)); err != nil {
			return err
		}
	}
	if h.x.opts.Enqueue != nil {
		return h.x.opts.Enqueue(ctx, tx, op)
	}
	return nil
}

// reused is the answer to a key that came with other arguments before.
func (o *ask) reused(stored []byte, firstAt time.Time) error {
	changed, complete := canon.ChangedArgs(stored, o.argDigests)
	return &dedup.Error{
		Answer: dedup.ErrKeyReused, Scope: o.Scope, Tool: o.Tool, KeyHash: dedup.KeyHash(o.Key),
		FirstAt: firstAt, Changed: changed, Complete: complete,
	}
}

const release = "RELEASE SAVEPOINT tool_effect"

// tryAccept looks and inserts behind a savepoint. That stays open only where something is to
// be written beside the row.
func (h *Handle[In, Out]) tryAccept(ctx context.Context, conn *pgx.Conn, o *ask) (seen sight, err error) {
	seen, marked, err := h.x.sendAccept(ctx, conn, o, !h.writes())
	switch {
	case err != nil && marked && conn.PgConn().TxStatus() == 'E':
		if left := undo(ctx, conn); left != nil {
			return seen, o.answer(dedup.ErrRestartTx, errors.Join(err, left))
		}
	case err != nil && conn.PgConn().TxStatus() == 'E' && dedup.IsTransient(err): // before there was a savepoint
		return seen, o.answer(dedup.ErrRestartTx, err)
	case err != nil && conn.PgConn().TxStatus() == 'E':
		return seen, fmt.Errorf("%w (the transaction is aborted; roll it back)", err)
	case err == nil && !seen.mine && h.writes():
		_, err = conn.Exec(ctx, release)
	}
	return seen, err
}

// sendAccept reports whether the savepoint was made.
func (x *Tools) sendAccept(ctx context.Context, conn *pgx.Conn, o *ask, releases bool) (seen sight, marked bool, err error) {
	if err := x.findEngine(ctx, conn); err != nil {
		return seen, false, err
	}
	sql, b := x.sql(), &pgx.Batch{}
	if sql.block {
		if err := refuseSimpleProtocol(conn.Config()); err != nil {
			return seen, false, err
		}
	}
	b.Queue("SAVEPOINT tool_effect")
	queue(b, sql.limit)
	b.Queue(sql.accept, o.Scope, o.Tool, o.Key, o.fingerprint[:], o.argDigests, o.input)
	queue(b, sql.unlimit)
	if releases {
		b.Queue(release)
	}
	results := conn.SendBatch(ctx, b)
	defer func() { err = errors.Join(err, results.Close()) }()
	if _, err = results.Exec(); err != nil {
		return seen, false, err
	}
	for range sql.limit {
		if _, err = results.Exec(); err != nil {
			return seen, true, err
		}
	}
	return seen, true, seen.scan(results.QueryRow())
}

// declined is the answer to a failure that has left the caller's transaction as it was, or
// that asks for a new one.
func declined(o *ask, err error) error {
	if errors.Is(err, dedup.ErrRestartTx) {
		return err
	}
	switch wire.SQLState(err) {
	case pgLockNotAvailable:
		return o.answer(dedup.ErrInFlight, err)
	case "40001", "40P01":
		return o.answer(dedup.ErrRestartTx, err)
	}
	return failed("accepting", err)
}
