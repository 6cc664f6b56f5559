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

// This file classifies failures: it retries some, records some as refusals, and returns the rest to
// the caller. constraint.go looks for a record first.

// stage is where an attempt failed after its look-up.
type stage int

const (
	notFailed stage = iota // or the failure needs no look-up: opening failed, or the context ended before the record
	atEffect
	atRecord
	atCommit
)

// failure is the state in which an attempt failed after its look-up.
type failure struct {
	at stage
	// rode is true if the statement that rode with the look-up failed. described is true if its
	// parameter types were chosen before this attempt.
	rode, described bool
	// connLost is true if the attempt's connection was closed by then.
	connLost bool
	// blocked is how long the record's statement waited for a lock before it gave up, else 0. A
	// twin held the row, or another transaction had locked the table.
	blocked time.Duration
	// cancelled is true if the record's statement failed as [table.CancelledAtLimit] describes.
	cancelled bool
	// readOnly is true if a primary refused a write because the transaction is read-only. A standby
	// already refuses to open the transaction.
	readOnly bool
}

// failAt is the ending of an attempt that failed after its look-up. It notes the state of the
// connection, which changes later.
func (a *attempt) failAt(at stage, err error) ending {
	f, pg := &a.failure, a.on.PgConn()
	f.at = at
	f.cancelled = at == atRecord && table.CancelledAtLimit(err, f.blocked, a.insertLimit())
	if at != atRecord || !table.GaveUp(err) {
		f.blocked = 0
	}
	f.connLost = pg.IsClosed()
	f.readOnly = wire.IsReadOnlyTx(err) && pg.TxStatus() == 'E'
	return fail(err)
}

// redact removes the row's values from an error of the record's statement.
func (a *attempt) redact(err error) error {
	if a.failure.at == atRecord {
		return redact(err)
	}
	return err
}

// classify returns the ending after a failure that no record explains. The order of the cases
// matters.
func (c *call) classify(err error) ending {
	f := &c.current.failure
	var final *finalError
	var notFinal *notFinalError
	switch {
	case f.at == atRecord && table.IsConflict(err):
		return c.conflict(err)
	case f.at == atRecord && wire.SQLState(err) == wire.CodePreparedMissing && !c.current.inOwnTx:
		return fail(invalidEffect(err, "has discarded the prepared statements of its connection (DEALLOCATE, DISCARD); leave them, or call pgx's Conn.DeallocateAll after the transaction"))
	case f.at == atRecord && wire.SQLState(err) == wire.CodePreparedMissing && !c.discarded:
		c.discarded = true // the effect discarded them; the next attempt uses another connection
		return ending{kind: again}
	case f.cancelled && !c.cancelled:
		c.cancelled = true
		return ending{kind: again, err: err}
	case f.readOnly:
		return fail(readOnlyTx(err))
	case mayRetryEffect(err, f.connLost), f.blocked > 0: // the holder of the lock may be gone by then
		return retry(err)
	case wire.IsTxTimeout(err):
		return fail(tooSlow(err))
	case f.at == atRecord:
		return fail(fmt.Errorf("dedup: writing the record: %w", err)) // already redacted
	case errors.As(err, &notFinal):
		return fail(err)
	case errors.Is(err, guard.ErrTxControl):
		return fail(misused(err))
	case errors.As(err, &final):
		return c.refuse(final.err)
	case c.storeErrors && c.written.Outcome == table.Done && recordable(err): // not if the refusal's own COMMIT failed
		return c.refuse(unmarked(err))
	case wire.SQLState(err) != "": // a deferred constraint failed at COMMIT
		return fail(byEffect(err))
	default:
		return fail(err)
	}
}

// openFailed returns the ending after a failure before the effect. Nothing ran, so no record can
// explain it.
func (c *call) openFailed(ctx context.Context, err error) ending {
	switch {
	case wire.SQLState(err) == wire.CodeUniqueViolation: // of a claim
		return c.conflict(err)
	case c.seen.Cancelled && !c.cancelled:
		c.cancelled = true
		return ending{kind: again, err: err}
	case wire.IsUnsent(err) && c.stmt.Read != nil && !c.separateTrip:
		c.separateTrip = true
		return ending{kind: again}
	case wire.SQLState(err) == wire.CodePreparedMissing && c.preparedMissing < c.d.pool.Stat().MaxConns():
		c.preparedMissing++ // another user of the connection discarded its prepared statements
		return ending{kind: again, err: err}
	}
	err = c.d.withHint(hintPooler(err))
	switch {
	case wire.IsReadOnlyTx(err): // behind a statement that a standby refuses
		return fail(readOnlyTx(err))
	case mayRetry(ctx, err):
		return ending{kind: again, err: err, pause: true, outage: isOutage(err)}
	case errors.Is(err, ErrSchema):
		return fail(err)
	case wire.IsTxTimeout(err): // between a claim and the look-up behind it
		return fail(tooSlow(err))
	case ctx.Err() != nil:
		return fail(fmt.Errorf("dedup: opening the transaction: %w: %w", contextError(ctx), err))
	default:
		return fail(fmt.Errorf("dedup: opening the transaction: %w", err))
	}
}

// refuse prepares the next attempt to record a refusal. A refusal must not share a transaction with
// the effect's writes.
func (c *call) refuse(cause error) ending {
	text, err := encodeRefusal(cause, c.d.opts.MaxResultBytes)
	if err != nil {
		return fail(fmt.Errorf("%w (the refusal: %w)", err, byEffect(cause)))
	}
	c.written, c.cause = table.Record{Outcome: table.Refused, Result: text}, cause
	return ending{kind: again}
}

// unrecorded removes the mark of Final from an error that was not recorded, because the next call
// runs the effect again.
func unrecorded(err error) error {
	for {
		final, ok := errors.AsType[*finalError](err)
		if !ok {
			return err
		}
		err = byEffect(final.err)
	}
}

// recordable reports whether StoreErrors may record an error as the call's answer. Errors of the
// effect and of its statements may be recorded. Errors of the library, of a context, of an operator
// or of the server's state may not.
func recordable(err error) bool {
	marked, isMarked := err.(*effectError)
	switch {
	case isMarked:
		err = marked.err
	case wire.SQLState(err) == "":
		return false
	}
	for _, own := range [...]error{
		ErrInvalid, ErrInFlight, ErrRestartTx, ErrSchema, ErrBroken, ErrOutcomeUnknown, ErrAttemptsExhausted, pgx.ErrTxClosed,
	} {
		if errors.Is(err, own) {
			return false
		}
	}
	if wire.IsContextError(err) {
		return false
	}
	switch sqlClass(err) {
	case "25", "26", "57", "58", "F0", "XX": // transaction state, statements, intervention, system, internal
		return false
	}
	return true
}
