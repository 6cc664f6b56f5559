package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// doTx makes one attempt behind a savepoint of the caller's transaction. It
// takes no part in the process's flights: its record is not committed when it
// returns.
func (d *Deduper) doTx(ctx context.Context, tx pgx.Tx, req *request, work work) (settled, error) {
	start := time.Now()
	s := settled{attempts: 1}
	if ctx.Err() != nil {
		return s, fmt.Errorf("dedup: %w", contextError(ctx))
	}
	if err := d.trustArbiter(ctx, tx); err != nil {
		return s, inTx(err)
	}
	open, err := d.order.openIn(ctx, tx, req)
	open.tx = tx
	switch {
	case err != nil && !open.marked: // and nothing to back out of
		return s, inTx(hintPooler(err))
	case sqlState(err) == codeUniqueViolation: // of a claim
		d.traceConflict(ctx, req, err, false)
		return s, backOut(ctx, tx, conflictError(req, err))
	case err != nil:
		return s, backOut(ctx, tx, inTx(hintPooler(err)))
	case open.found:
		s.rec = open.rec
		return s, backOut(ctx, tx, nil)
	case open.busy:
		return s, backOut(ctx, tx, ErrInFlight)
	case open.hidden:
		d.traceConflict(ctx, req, nil, false)
		return s, backOut(ctx, tx, conflictError(req, nil))
	}

	panicked, gone := true, false
	defer func() {
		switch {
		case panicked && gone:
			_ = d.recordBroken(ctx, req, errTxGone) // the panic is what is told
		case panicked:
			_ = backOut(ctx, tx, nil)
		}
	}()
	text, err := d.perform(ctx, req, &open, work, nil, &gone)
	panicked = false

	f := failure{err: err}
	if err == nil {
		f = d.recordInTx(ctx, tx, req, &open, outcomeDone, text, &s)
	}
	if f.err != nil {
		err = d.resolveInTx(ctx, tx, req, &open, f, &s)
	}
	s.took = time.Since(start)
	return s, err
}

// recordInTx writes the record and releases the savepoint.
func (d *Deduper) recordInTx(ctx context.Context, tx pgx.Tx, req *request, open *opening, out outcome, text string, s *settled) failure {
	b := &pgx.Batch{}
	rec := d.queue(b, req, open, out, text)
	b.Queue("release savepoint " + savepoint)
	br := tx.SendBatch(ctx, b)
	err := readRecord(br, b.Len()-2, &rec)
	atRecord := err != nil
	if err = closeBatch(br, err); err == nil {
		s.rec, s.executed = rec, true
	}
	return failure{err: err, atRecord: atRecord}
}

// resolveInTx is resolve inside the caller's transaction: it leaves the
// transaction as it was before the call, or says that it must be run again.
func (d *Deduper) resolveInTx(ctx context.Context, tx pgx.Tx, req *request, open *opening, f failure, s *settled) error {
	if f.err == errTxGone || f.atRecord && tripped(f.err) {
		return d.recordBroken(ctx, req, f.err)
	}
	if f.err == errSwallowed { // the savepoint was released in the same pipeline
		d.trusted.Store(false)
		return fmt.Errorf("%w; roll the transaction back: %w", conflictError(req, nil), f.err)
	}
	if ctx.Err() != nil {
		return backOut(ctx, tx, withContext(ctx, f.err))
	}
	if err := backTo(ctx, tx); err != nil {
		return fmt.Errorf("%w (and rolling back to the savepoint: %w)", f.err, err)
	}
	seen, isolation, err := d.lookInTx(ctx, tx, req)
	if err != nil {
		return backOut(ctx, tx, fmt.Errorf("%w (and looking up the record: %w)", f.err, err))
	}
	if seen.found {
		d.traceConflict(ctx, req, f.err, true)
		s.rec = seen.rec
		return backOut(ctx, tx, nil)
	}

	state, err := f.ownState(req)
	switch {
	case state == attemptRefusal:
		return d.refuseInTx(ctx, tx, req, open, err, s)
	case state == attemptRetry,
		// An old snapshot hides the winner's record.
		isolation != string(pgx.ReadCommitted) && sqlState(err) == codeUniqueViolation:
		err = &RestartTxError{Err: cleaned(err)}
	case state == attemptConflict:
		d.traceConflict(ctx, req, err, false)
		err = conflictError(req, err)
	}
	return backOut(ctx, tx, err)
}

// refuseInTx records a refusal in place of the effect that was rolled back.
func (d *Deduper) refuseInTx(ctx context.Context, tx pgx.Tx, req *request, open *opening, cause error, s *settled) error {
	text, err := encodeRefusal(cause, d.opts.MaxResultBytes)
	if err != nil {
		return backOut(ctx, tx, fmt.Errorf("%w (the refusal: %w)", err, cause))
	}
	f := d.recordInTx(ctx, tx, req, open, outcomeRefused, text, s)
	if f.err == nil {
		s.cause = cause
		return nil
	}
	// The rollback to the savepoint gave the lock back, and a twin was faster.
	return d.resolveInTx(ctx, tx, req, open, f, s)
}

// lookInTx looks the record up and reads the transaction's isolation level.
func (d *Deduper) lookInTx(ctx context.Context, tx pgx.Tx, req *request) (seen sighting, isolation string, err error) {
	b := &pgx.Batch{}
	b.Queue(`SELECT current_setting('transaction_isolation')`)
	b.Queue(d.sql.lookup, req.idArgs()...)
	br := tx.SendBatch(ctx, b)
	if err = br.QueryRow().Scan(&isolation); err == nil {
		_, err = seen.see(br.QueryRow())
	}
	return seen, isolation, closeBatch(br, err)
}

// inTx makes of a fault that a fresh transaction would not meet the error that
// asks for one.
func inTx(err error) error {
	switch {
	case errors.Is(err, ErrArbiter):
		return err
	case IsTransient(err):
		return &RestartTxError{Err: cleaned(err)}
	}
	return fmt.Errorf("dedup: in the caller's transaction: %w", cleaned(err))
}

// backTo rolls back to the savepoint and keeps it; backOut leaves it as well, on
// every way out, and returns why, or why together with what went wrong: a
// savepoint that stayed would be taken for the one of an outer call.
// Both go on after the caller's context has ended. They are one text without
// arguments, which pgx sends in the simple protocol: in an aborted transaction
// nothing can be prepared.
func backTo(ctx context.Context, tx pgx.Tx) error {
	return execDetached(ctx, tx, "rollback to savepoint "+savepoint)
}

func backOut(ctx context.Context, tx pgx.Tx, why error) error {
	err := execDetached(ctx, tx, "rollback to savepoint "+savepoint+"; release savepoint "+savepoint)
	switch {
	case err == nil:
		return why
	case why == nil:
		return fmt.Errorf("dedup: leaving the savepoint: %w", cleaned(err))
	default:
		return fmt.Errorf("%w (and leaving the savepoint: %w)", why, cleaned(err))
	}
}

func execDetached(ctx context.Context, tx pgx.Tx, sql string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, err := tx.Exec(ctx, sql)
	return err
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
	return nil
}
