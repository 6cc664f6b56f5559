package dedup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// txCall is one DoTx: an attempt behind a savepoint of the caller's transaction,
// and a second one where a refusal is to be recorded. It takes no part in the
// process's flights: its record is not committed when it returns.
type txCall struct {
	d   *Deduper
	tx  pgx.Tx
	req *request
	// mark is the savepoint's name. It tells how deep the call is nested in
	// others' effects, so that no call can take another's for its own.
	mark string
	s    settled
}

func (d *Deduper) doTx(ctx context.Context, tx pgx.Tx, req *request, work work) (settled, error) {
	depth := 1
	if e, ok := tx.(*effectTx); ok {
		depth = e.root.depth + 1
	}
	c := &txCall{d: d, tx: tx, req: req, mark: "tool_dedup_" + strconv.Itoa(depth)}
	start := time.Now()
	err := c.run(ctx, outcomeDone, work)
	c.s.took = time.Since(start)
	return c.s, err
}

// run makes one attempt and leaves the transaction as it was before, but for
// what the attempt is to leave in it.
func (c *txCall) run(ctx context.Context, out outcome, work work) error {
	if ctx.Err() != nil {
		return fmt.Errorf("dedup: %w", contextError(ctx))
	}
	if err := c.d.trustArbiterOf(ctx, c.tx); err != nil {
		return inTx(err)
	}
	c.s.attempts++
	open, err := c.d.order.openIn(ctx, txLine(c.tx), c.mark, c.req)
	open.tx = c.tx
	switch {
	case err != nil && !open.marked: // and nothing to back out of
		err = inTx(c.d.explained(hintPooler(err)))
		if connOf(c.tx).PgConn().TxStatus() == 'E' {
			err = fmt.Errorf("%w (the transaction is aborted; roll it back)", err)
		}
		return err
	case sqlState(err) == codeUniqueViolation: // of a claim
		return c.conflict(ctx, c.backOut(ctx), err)
	case err != nil:
		return alongside(inTx(c.d.explained(hintPooler(err))), c.backOut(ctx))
	case open.found:
		c.s.rec = open.rec
		return c.backOut(ctx)
	case open.busy:
		return alongside(ErrInFlight, c.backOut(ctx))
	case open.hidden:
		return c.conflict(ctx, c.backOut(ctx), nil)
	}
	if f := c.perform(ctx, &open, out, work); f.err != nil {
		return c.resolve(ctx, f)
	}
	return nil
}

// perform runs the work and writes its record. A panic passes through here with
// the transaction as it was before.
func (c *txCall) perform(ctx context.Context, open *opening, out outcome, work work) (f failure) {
	returned, gone := false, false
	defer func() {
		switch {
		case returned:
		case gone:
			_ = c.broken(ctx, errTxGone) // the panic is what is told
		default:
			_ = c.backOut(ctx) // likewise
		}
	}()
	text, err := c.d.perform(ctx, c.req, open, work, nil, &gone)
	if err != nil {
		f = failure{err: err, lost: connOf(c.tx).IsClosed()}
	} else {
		f = c.record(ctx, open, out, text)
	}
	returned = true
	return f
}

// record writes the record and releases the savepoint.
func (c *txCall) record(ctx context.Context, open *opening, out outcome, text string) failure {
	p := txLine(c.tx).pipeline()
	limit := c.recordLimit()
	rec := c.d.queue(p, c.req, open, out, text, limit)
	p.queue(query{text: "release savepoint " + c.mark})
	a := p.send(ctx)
	err := readRecord(a, &rec, c.req, limit)
	atRecord := err != nil
	if err = a.close(err); err == nil {
		c.s.rec, c.s.executed = rec, true
	}
	return failure{err: err, atRecord: atRecord, lost: connOf(c.tx).IsClosed()}
}

// recordLimit is how long writing the record may wait for a twin that does not
// hold the identity's lock.
func (c *txCall) recordLimit() time.Duration { return hurried(c.req.maxWait) }

// resolve is Deduper.resolve inside the caller's transaction.
func (c *txCall) resolve(ctx context.Context, f failure) error {
	f = f.cleaned()
	switch {
	case f.brokeTx():
		return c.broken(ctx, f.err)
	case f.err == errSwallowed: // the savepoint was released in the same pipeline
		c.d.distrust()
		return fmt.Errorf("%w; roll the transaction back: %w", conflictError(c.req, nil), f.err)
	case ctx.Err() != nil:
		return alongside(withContext(ctx, f.err), c.backOut(ctx))
	case f.lost && (isConnectionLost(f.err) || IsTransient(f.err)):
		return &RestartTxError{Err: f.err}
	}
	seen, isolation, err := c.lookBehind(ctx)
	switch {
	case err != nil:
		return alongside(f.err, err)
	case seen.found:
		c.s.rec = seen.rec
		c.d.traceConflict(ctx, c.req, f.err, true)
		return nil
	}

	state, err := f.ownState(c.req)
	switch {
	case f.atRecord && c.recordLimit() != 0 && sqlState(err) == codeLockNotAvailable:
		return ErrInFlight
	case state == attemptRefusal:
		return c.refuse(ctx, err)
	case state == attemptConflict && isolation == string(pgx.ReadCommitted):
		return c.conflict(ctx, nil, err)
	case state == attemptRetry && sqlState(err) == codeReadOnly:
		return inTx(err)
	case state == attemptRetry, state == attemptConflict,
		// An old snapshot hides the winner's record.
		isolation != string(pgx.ReadCommitted) && sqlState(err) == codeUniqueViolation:
		return &RestartTxError{Err: cleaned(err)}
	default:
		return err
	}
}

// lookBehind rolls back to the savepoint, looks the record up, and leaves the
// savepoint. It reads the transaction's isolation level as well.
func (c *txCall) lookBehind(ctx context.Context) (seen sighting, isolation string, err error) {
	if err := c.exec(ctx, "rollback to savepoint "+c.mark); err != nil {
		return seen, "", fmt.Errorf("dedup: rolling back to the savepoint: %w", cleaned(err))
	}
	p := txLine(c.tx).pipeline()
	p.queue(query{text: `SELECT pg_catalog.current_setting('transaction_isolation')`})
	p.queueID(c.d.sql.lookup, &c.req.identity)
	a := p.send(ctx)
	if err = a.scan(&isolation); err == nil {
		_, err = seen.see(a)
	}
	if err = a.close(err); err != nil {
		err = fmt.Errorf("dedup: looking up the record: %w", cleaned(err))
	}
	return seen, isolation, alongside(err, c.backOut(ctx))
}

// refuse records a refusal in an attempt of its own, as Do does: the effect's
// savepoint is gone, and its lock or claim with it.
func (c *txCall) refuse(ctx context.Context, cause error) error {
	text, err := encodeRefusal(cause, c.d.opts.MaxResultBytes)
	if err != nil {
		return fmt.Errorf("%w (the refusal: %w)", err, cause)
	}
	c.s.cause = cause
	return c.run(ctx, outcomeRefused, func(context.Context, pgx.Tx) (string, error) { return text, nil })
}

func (c *txCall) conflict(ctx context.Context, left, err error) error {
	c.d.traceConflict(ctx, c.req, err, false)
	return alongside(conflictError(c.req, err), left)
}

// broken records that the effect ended the caller's transaction. The caller may
// hold the only connection of the pool, so its own is used where it is free.
func (c *txCall) broken(ctx context.Context, cause error) error {
	conn := connOf(c.tx)
	if pg := conn.PgConn(); pg.IsClosed() || pg.IsBusy() || pg.TxStatus() != 'I' {
		conn = nil
	}
	return c.d.recordBroken(ctx, c.req, cause, conn)
}

// backOut rolls back to the savepoint and leaves it. It is one text without
// arguments, which pgx sends in the simple protocol: in an aborted transaction
// nothing can be prepared.
func (c *txCall) backOut(ctx context.Context) error {
	err := c.exec(ctx, "rollback to savepoint "+c.mark+"; release savepoint "+c.mark)
	if err != nil {
		return fmt.Errorf("dedup: leaving the savepoint: %w", cleaned(err))
	}
	return nil
}

// exec goes on after the caller's context has ended. A connection that is still
// busy with a result set cannot be rolled back: it is closed, so that nothing of
// the transaction can be committed.
func (c *txCall) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if conn := connOf(c.tx); conn.PgConn().IsBusy() {
		_ = conn.Close(ctx)
	}
	_, err := c.tx.Exec(ctx, sql)
	return err
}

// alongside returns err, and what else went wrong beside it.
func alongside(err, other error) error {
	switch {
	case err == nil:
		return other
	case other == nil:
		return err
	default:
		return fmt.Errorf("%w (and %w)", err, other)
	}
}

// inTx makes of a fault that a fresh transaction would not meet the error that
// asks for one.
func inTx(err error) error {
	switch {
	case errors.Is(err, ErrArbiter):
		return err
	case sqlState(err) != codeReadOnly && (IsTransient(err) || isConnectionLost(err)):
		return &RestartTxError{Err: cleaned(err)}
	}
	return fmt.Errorf("dedup: in the caller's transaction: %w", cleaned(err))
}

// checkTx tells whether tx can be worked in.
func checkTx(tx pgx.Tx) error {
	invalid := func(reason string) error { return &InvalidCallError{Field: "tx", Reason: reason} }
	if tx == nil {
		return invalid("must not be nil")
	}
	var pg *pgconn.PgConn
	if conn := connOf(tx); conn != nil {
		pg = conn.PgConn()
	}
	switch {
	case pg == nil:
		return invalid("has no connection")
	case pg.IsClosed():
		return invalid("its connection is closed")
	case pg.IsBusy():
		return invalid("a result set of it is still open; close its rows first")
	case pg.TxStatus() == 'I':
		return invalid("it has ended")
	case pg.TxStatus() == 'E':
		return invalid("an earlier statement failed and aborted it; roll it back")
	}
	if err := checkSession(pg); err != nil {
		return &InvalidCallError{Field: "tx", Reason: "has a session that does not speak as dedup needs it", Err: err}
	}
	return nil
}
