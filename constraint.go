package dedup

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
)

// The primary key of tool_dedup decides which of several calls of an identity has its effect. This
// file turns a conflict into a read of the winning row.

// resolveFailure rolls a failed attempt back, looks for a record, and returns the ending.
//
// The first error proves nothing. A lost race may show as a violation of tool_dedup's key or of the
// application's own unique index, as a serialization failure or as a deadlock. The effect may make
// another error of these, and a trigger can raise an error that looks like a lost race. So
// resolveFailure looks the identity up in a new statement:
//
//   - A record is the answer, whatever the failure was.
//   - Without a record, the record's statement may have given up waiting for a lock. If a tried
//     claim shows that a twin holds the row, the call waits for the twin.
//   - Otherwise classify decides. This attempt held the identity throughout, so no twin can have
//     succeeded meanwhile, and the failure may be returned.
func (a *attempt) resolveFailure(ctx context.Context, tx transaction, err error) ending {
	c := a.c
	switch {
	case err == guard.ErrTxEnded, a.failure.at == atRecord && table.Tripped(err):
		if c.written.Outcome != table.Broken { // else the broken record itself cannot be written
			err = c.recordBroken(ctx, err, tx)
		}
		return fail(err)
	case ctx.Err() != nil:
		return fail(withContext(ctx, unrecorded(a.redact(err))))
	case a.failure.rode && a.failure.described && !a.failure.connLost && mayBeStale(err):
		// The statement may be older than a change of a type. If it also fails when sent
		// separately, the error is the statement's.
		c.separateTrip = true
		return ending{kind: again}
	}
	if err = a.redact(err); a.failure.rode {
		err = byEffect(c.stmt.applyOnError(err, a.failure.connLost))
	}
	switch lookErr := tx.look(ctx, a.failure.blocked > 0); {
	case lookErr != nil && c.seen.Cancelled && !c.cancelled:
		c.cancelled = true
		return ending{kind: again, err: err}
	case lookErr != nil && mayRetry(ctx, lookErr) && !errors.Is(err, guard.ErrTxBusy):
		return retry(errors.Join(unrecorded(err), lookErr)) // the next attempt looks again
	case lookErr != nil:
		return fail(joinErr(unrecorded(err), fmt.Errorf("looking up the record: %w", lookErr)))
	case c.seen.Found:
		c.waits.all += a.failure.blocked
		return ending{kind: found}
	case c.seen.Busy && a.failure.blocked > 0:
		c.waits.all += a.failure.blocked
		return ending{kind: busy}
	}
	a.noneCommitted = true // the look-up of ownTx saw everything committed, at every level
	return c.classify(err)
}

// errHidden is the conflict of a claim with a row that no look-up finds.
var errHidden = errors.New("dedup: an invisible row conflicts with the claim")

// maxConflicts is the number of further attempts after a unique violation without a record. After a
// lost race there is a record, unless the winner's was deleted meanwhile. A trigger or another
// unique index raises the violation every time: without the bound an effect ran 4,104 times in 2 s
// (measured).
const maxConflicts = 2

// conflict is the ending after a unique violation without a record: a few more attempts, then an
// ErrSchema.
func (c *call) conflict(err error) ending {
	c.conflicts++
	if c.conflicts > maxConflicts || c.current.inOwnTx && c.conflicts >= c.d.opts.Retry.MaxAttempts {
		return ending{kind: failed, err: c.conflictError(err), conflict: true}
	}
	return ending{kind: again, pause: true, err: err, conflict: true}
}

// conflictError describes a conflict that no record explains.
func (c *call) conflictError(err error) *Error {
	const why = "writing the record conflicts, although there is no record of this identity: a trigger, a rule, row security or another unique index on tool_dedup"
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return c.named(Error{Kind: ErrSchema, Err: fmt.Errorf(why+" (table %q, constraint %q): %w", server.TableName, server.ConstraintName, withoutDetail(server))})
	}
	return c.named(Error{Kind: ErrSchema, Err: errors.New(why)})
}
