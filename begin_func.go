package dedup

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/wire"
)

// BeginFunc is [pgx.BeginFunc] for a function that calls [DoTx]: it begins a transaction on
// the Deduper's pool at READ COMMITTED, calls fn with it, and commits where fn returns nil.
//
// Where fn returns a refusal ([ErrRefused]) of a DoTx in this transaction, as it is or
// wrapped, it commits too and returns fn's error: the refusal's record is in the transaction.
// Any other error, of another call's refusal too, rolls back and is returned. A panic rolls
// back and is raised again.
//
// Where fn returns [ErrRestartTx] or a transient fault ([IsTransient]), or the transaction cannot
// be begun because of one, everything is rolled back and fn is called again in a fresh
// transaction, after a pause, within Options.Retry; then the answer is [ErrAttemptsExhausted].
// So fn may be called more than once. It must not keep tx, and what it does outside of tx is
// done again. It must not end tx: that is an [ErrInvalid], and fn is not called again.
//
// [ErrOutcomeUnknown] means that the answer to COMMIT was lost. All of the transaction is
// committed or none of it. Call BeginFunc again if every write of fn is the effect of a DoTx with
// the same key: those that are committed are replayed then. A write beside them is made twice,
// so find out first whether it is there: [Deduper.Lookup] of a call in the transaction says whether
// it is committed.
//
// Cancelling ctx stops the pauses, cancels statements that were sent with it, and rolls back; a
// COMMIT that has been sent is finished within Options.CommitTimeout all the same. Inside an
// effect the answer is an [ErrInvalid].
func (d *Deduper) BeginFunc(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	switch {
	case guard.Inside(ctx):
		return errNested
	case fn == nil:
		return missing("fn", "must not be nil")
	}
	for attempt := 1; ; attempt++ {
		again, err := d.beginFunc(ctx, attempt, fn)
		if !again || err == nil {
			return err
		}
		if ctx.Err() != nil {
			return withContext(ctx, err)
		}
		if attempt >= d.opts.Retry.MaxAttempts {
			return &Error{Answer: ErrAttemptsExhausted, Attempts: attempt, Err: byEffect(err)}
		}
		if sleep(ctx, d.opts.Retry.pause(attempt)) != nil {
			return withContext(ctx, err)
		}
	}
}

const endedItself = "has ended the transaction of BeginFunc itself"

// beginFunc makes one transaction. again means that nothing is committed, and that a fresh
// transaction may succeed.
func (d *Deduper) beginFunc(ctx context.Context, attempt int, fn func(tx pgx.Tx) error) (again bool, err error) {
	pooled, err := d.acquire(ctx)
	if err != nil {
		return mayRetry(ctx, err), fmt.Errorf("dedup: beginning the transaction: %w", err)
	}
	defer d.release(ctx, pooled) // rolls back, after a panic too
	tx, err := pooled.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		wire.DropUnusable(ctx, pooled.Conn(), err)
		return mayRetry(ctx, err), fmt.Errorf("dedup: beginning the transaction: %w", err)
	}
	defer func() { // closes tx in case fn has kept it; after a COMMIT nothing is open
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wire.RollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err = fn(tx); err != nil {
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || refused.in != pooled.Conn() {
			again = errors.Is(err, ErrRestartTx) || wire.IsTransient(err) || wire.IsConnLost(err)
			if pg := pooled.Conn().PgConn(); again && !pg.IsClosed() && pg.TxStatus() == 'I' { // and what it wrote may be committed
				return false, invalidEffect(err, endedItself)
			}
			wire.DropUnusable(ctx, pooled.Conn(), err)
			return again, err
		}
	}
	if ctx.Err() != nil {
		return false, fmt.Errorf("dedup: before commit: %w", contextError(ctx))
	}
	if again, failed := d.commit(ctx, pooled.Conn(), tx, attempt); failed != nil {
		return again, failed
	}
	return false, err
}

// commit commits a transaction of BeginFunc. Its context is not the caller's: cancelling
// COMMIT would turn its outcome into a guess.
func (d *Deduper) commit(ctx context.Context, conn *pgx.Conn, tx pgx.Tx, attempt int) (again bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.opts.CommitTimeout)
	defer cancel()
	defer wire.ShieldCommit(conn)()
	err = tx.Commit(ctx)
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, pgx.ErrTxClosed):
		return false, invalidEffect(err, endedItself)
	case errors.Is(err, pgx.ErrTxCommitRollback): // fn has ignored the error of a statement
		return false, fmt.Errorf("dedup: committing: %w", err)
	case wire.OutcomeOfCommit(conn.PgConn(), pgconn.CommandTag{}, err, false) == wire.NotCommitted:
		return wire.IsTransient(err), fmt.Errorf("dedup: committing: %w", cleaned(err))
	default:
		return false, &Error{Answer: ErrOutcomeUnknown, Attempts: attempt, Err: err}
	}
}
