package dedup

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// savepoint is where a DoTx works: one attempt behind a savepoint of the caller's
// transaction, another one where a refusal is to be recorded, and at most
// maxConflicts after a conflict without a record. It takes no part in the
// process's flights: its record is not committed when it returns.
type savepoint struct {
	g  *group
	c  *call
	tx pgx.Tx
	// table is that of tx's database.
	table *table.Table
	// name says how deep the call is nested in others' effects, so that no call can take
	// another's savepoint for its own.
	name string
}

func (s *solo) doTx(ctx context.Context, tx pgx.Tx) error {
	sp := &savepoint{g: s.alone(), c: &s.call, tx: tx, name: "tool_dedup_" + strconv.Itoa(guard.Depth(tx)+1)}
	return sp.run(ctx)
}

// run makes one attempt and leaves the transaction as it was before, but for
// what the attempt is to leave in it.
func (sp *savepoint) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("dedup: %w", contextError(ctx))
	}
	d, c := sp.g.d, sp.c
	var err error
	if sp.table, err = d.checkTableOf(ctx, sp.tx); err != nil {
		return inTx(err)
	}
	c.attempts++
	t := &transaction{g: sp.g, table: sp.table, on: wire.In(sp.tx), conn: guard.ConnOf(sp.tx), tx: sp.tx, calls: sp.g.calls, width: 1, limit: c.waiter.inPostgres()}
	open, err := sp.table.OpenIn(ctx, t.on, sp.name, &c.Entry, t.limit)
	switch {
	case err != nil && !open.Marked: // and nothing to back out of
		err = inTx(d.explained(hintPooler(err)))
		if t.conn.PgConn().TxStatus() == 'E' {
			err = fmt.Errorf("%w (the transaction is aborted; roll it back)", err)
		}
		return err
	case wire.SQLState(err) == wire.CodeUniqueViolation: // of a claim
		return sp.conflict(ctx, sp.backOut(ctx), err)
	case err != nil:
		return alongside(inTx(d.explained(hintPooler(err))), sp.backOut(ctx))
	}
	t.started, t.locked = open.Started, open.Locked
	v, ok := t.opened(&open)
	if ok {
		v = sp.perform(ctx, t)
	}
	switch v.state {
	case committed:
		return sp.settle(ctx)
	case found:
		c.rec = v.rec
		return sp.backOut(ctx)
	case busy:
		return alongside(ErrInFlight, sp.backOut(ctx))
	case conflicted:
		return sp.conflict(ctx, sp.backOut(ctx), nil)
	case failed:
		return alongside(v.err, sp.backOut(ctx))
	default:
		return sp.explain(ctx, v)
	}
}

// perform runs the effect, writes its record and releases the savepoint. A panic passes
// through here with the transaction as it was before.
func (sp *savepoint) perform(ctx context.Context, t *transaction) (v verdict) {
	returned := false
	defer func() {
		switch {
		case returned:
		case sp.c.endedTx:
			_ = sp.broken(ctx, errTxEnded) // the panic is what is raised
		default:
			_ = sp.backOut(ctx) // likewise
		}
	}()
	v = t.run(ctx, wire.Query{Text: "release savepoint " + sp.name})
	v.lost = t.conn.IsClosed()
	returned = true
	return v
}

// settle settles the call, whose record is in the transaction.
func (sp *savepoint) settle(ctx context.Context) error {
	if sp.c.written.CreatedAt.IsZero() { // the savepoint was released in the same pipeline
		sp.g.d.reexamine()
		conflict := conflictError(sp.c, nil)
		conflict.Err = fmt.Errorf("%w; roll the transaction back: %w", conflict.Err, table.ErrSwallowed)
		return conflict
	}
	sp.c.rec, sp.c.executed = sp.c.written, true
	return nil
}

// explain is group.explain inside the caller's transaction.
func (sp *savepoint) explain(ctx context.Context, v verdict) error {
	v.clean()
	c := sp.c
	switch {
	case v.brokeTx():
		return sp.broken(ctx, v.err)
	case ctx.Err() != nil:
		return alongside(withContext(ctx, v.err), sp.backOut(ctx))
	case v.lost && (wire.IsConnLost(v.err) || wire.IsTransient(v.err)):
		return restartTx(v.err)
	}
	leftOpen := guard.ConnOf(sp.tx).PgConn().IsBusy()
	seen, isolation, err := sp.lookBehind(ctx)
	switch {
	case err != nil && wire.SQLState(v.err) != "" && !leftOpen && (wire.IsConnLost(err) || wire.IsTransient(err)):
		// Perhaps a lost race: another run of the transaction will see.
		return restartTx(alongside(v.err, err))
	case err != nil:
		return alongside(v.err, err)
	case seen.Found:
		c.waiter.waited += v.blocked
		c.rec = seen.Record
		return nil
	case v.blocked > 0:
		return sp.unblocked(ctx, &v)
	}

	fresh := isolation == string(pgx.ReadCommitted)
	state, err := v.own()
	switch {
	case v.readOnly:
		return err
	case state == refused:
		return sp.refuse(ctx, err)
	case state == conflicted && fresh:
		return sp.conflict(ctx, nil, err)
	case state == retry && wire.SQLState(err) == wire.CodeReadOnly:
		return inTx(err)
	case state == retry, state == conflicted:
		return restartTx(cleaned(err))
	case !fresh && wire.SQLState(err) != "":
		return sp.lookPast(ctx, err)
	default:
		return err
	}
}

// lookBehind rolls back to the savepoint, looks the record up, and leaves the
// savepoint. It reads the transaction's isolation level as well.
func (sp *savepoint) lookBehind(ctx context.Context) (seen table.Lookup, isolation string, err error) {
	if err := sp.exec(ctx, "rollback to savepoint "+sp.name); err != nil {
		return seen, "", fmt.Errorf("dedup: rolling back to the savepoint: %w", cleaned(err))
	}
	seen, isolation, err = sp.table.LookUpIn(ctx, wire.In(sp.tx), &sp.c.Identity)
	if err != nil {
		err = fmt.Errorf("dedup: looking up the record: %w", cleaned(err))
	}
	return seen, isolation, alongside(err, sp.backOut(ctx))
}

// lookPast finds out whether a record that the transaction's snapshot is too old for is
// behind cause, an error that the server raised in the effect. It claims the identity
// and backs out: a claim meets whatever is committed.
func (sp *savepoint) lookPast(ctx context.Context, cause error) error {
	seen, err := sp.tryClaim(ctx)
	switch {
	case err == nil && !seen.Busy && !seen.Hidden && !seen.Found:
		return cause
	case err == nil || wire.IsTransient(err) || wire.IsConnLost(err):
		return restartTx(alongside(cleaned(cause), err))
	default:
		return alongside(cause, fmt.Errorf("dedup: looking for a newer record: %w", err))
	}
}

// unblocked says what the record has waited for: a twin that has no lock, or somebody else.
func (sp *savepoint) unblocked(ctx context.Context, v *verdict) error {
	seen, err := sp.tryClaim(ctx)
	if err == nil && seen.Busy {
		sp.c.waiter.waited += v.blocked
		return ErrInFlight
	}
	return restartTx(alongside(v.err, err))
}

// tryClaim claims the identity behind the savepoint, and leaves it.
func (sp *savepoint) tryClaim(ctx context.Context) (table.Lookup, error) {
	marked, seen, err := sp.table.TryClaimIn(ctx, wire.In(sp.tx), sp.name, &sp.c.Entry)
	err = cleaned(err)
	if marked {
		err = alongside(err, sp.backOut(ctx))
	}
	return seen, err
}

// refuse records a refusal in an attempt of its own, as Do does: the effect's
// savepoint is gone, and its lock or claim with it.
func (sp *savepoint) refuse(ctx context.Context, cause error) error {
	if _, _, err := sp.g.refuse(sp.c, cause); err != nil {
		return err
	}
	return sp.run(ctx)
}

// conflict is a unique violation without a record: the winner's may have been deleted
// since, so that a few more attempts are made.
func (sp *savepoint) conflict(ctx context.Context, left, err error) error {
	if sp.c.conflicts++; sp.c.conflicts <= maxConflicts && left == nil {
		return sp.run(ctx)
	}
	return alongside(conflictError(sp.c, err), left)
}

// broken records that the effect ended the caller's transaction. The caller may
// hold the only connection of the pool, so its own is used where it is free.
func (sp *savepoint) broken(ctx context.Context, cause error) error {
	conn := guard.ConnOf(sp.tx)
	if pg := conn.PgConn(); pg.IsClosed() || pg.IsBusy() || pg.TxStatus() != 'I' {
		conn = nil
	}
	return sp.g.d.recordBroken(ctx, sp.c, cause, conn)
}

// backOut rolls back to the savepoint and leaves it. It is one text without
// arguments, which pgx sends in the simple protocol: in an aborted transaction
// nothing can be prepared.
func (sp *savepoint) backOut(ctx context.Context) error {
	err := sp.exec(ctx, "rollback to savepoint "+sp.name+"; release savepoint "+sp.name)
	if err != nil {
		return fmt.Errorf("dedup: leaving the savepoint: %w", cleaned(err))
	}
	return nil
}

// exec goes on after the caller's context has ended. A connection that is still
// busy with a result set cannot be rolled back: it is closed, so that nothing of
// the transaction can be committed.
func (sp *savepoint) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
	defer cancel()
	if conn := guard.ConnOf(sp.tx); conn.PgConn().IsBusy() {
		_ = conn.Close(ctx)
	}
	_, err := sp.tx.Exec(ctx, sql)
	return err
}

// alongside returns err, and what else went wrong beside it.
func alongside(err, other error) error {
	switch {
	case err == nil:
		return other
	case other == nil:
		return err
	}
	if _, effects := err.(*effectError); effects {
		return byEffect(fmt.Errorf("%w (and %w)", effectsOwn(err), other))
	}
	return fmt.Errorf("%w (and %w)", err, other)
}

// inTx makes of a fault that a fresh transaction would not meet the error that
// asks for one.
func inTx(err error) error {
	switch {
	case errors.Is(err, ErrSchema):
		return err
	case wire.SQLState(err) != wire.CodeReadOnly && (wire.IsTransient(err) || wire.IsConnLost(err)):
		return restartTx(cleaned(err))
	}
	return fmt.Errorf("dedup: in the caller's transaction: %w", cleaned(err))
}

func restartTx(err error) error { return &Error{Answer: ErrRestartTx, Err: err} }

// checkTx reports whether tx can be worked in.
func checkTx(tx pgx.Tx) error {
	invalid := func(reason string) error { return invalid("tx", "%s", reason) }
	if tx == nil {
		return invalid("must not be nil")
	}
	var pg *pgconn.PgConn
	if conn := guard.ConnOf(tx); conn != nil {
		pg = conn.PgConn()
	}
	switch {
	case pg == nil:
		return invalid("has no connection")
	case pg.IsClosed():
		return invalid("has a closed connection")
	case pg.IsBusy():
		return invalid("has a result set that is still open; close its rows first")
	case pg.TxStatus() == 'I':
		return invalid("has ended")
	case pg.TxStatus() == 'E':
		return invalid("is aborted, because an earlier statement failed; roll it back")
	}
	if err := wire.CheckSession(pg); err != nil {
		return &InvalidError{What: "call", Field: "tx", Reason: "has a session with a client_encoding other than UTF8", Err: err}
	}
	return nil
}
