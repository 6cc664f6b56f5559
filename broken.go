package dedup

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// errTxEnded is what the guard says of an effect that ended its transaction.
var errTxEnded = guard.ErrTxEnded

// recordBroken blocks the identity of a call whose effect ended its own transaction, so that
// a retry cannot repeat whatever of it is committed. It goes on after the caller's context
// has ended. conn is a connection that is free, and perhaps the only one; nil takes one of
// the pool.
//
// With LockFirst the identity was free from the moment that the effect ended the
// transaction, and a twin may have run since; then the error says so.
func (c *call) recordBroken(ctx context.Context, cause error, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.d.opts.CommitTimeout)
	defer cancel()
	err := c.named(Error{Answer: ErrBroken, Err: cleaned(cause)})
	block := &call{outcome: table.Broken}
	block.d, block.function, block.Entry, block.began, block.maxWait = c.d, c.function, c.Entry, c.began, c.maxWait
	if conn != nil {
		v := block.attemptOn(ctx, conn)
		wire.Rollback(ctx, conn)
		if v.kind == done && !block.written.CreatedAt.IsZero() || v.kind == found && block.seen.Record.IsBroken() {
			err.Err = alongside(err.Err, c.d.auditBroken(ctx, conn, &c.Identity, cause))
			return err
		}
	}
	failed := block.run(ctx)
	switch {
	case failed != nil:
		err.Err = fmt.Errorf("%w (and it could not be recorded: %w)", err.Err, failed)
	case !block.executed && !block.rec.IsBroken():
		err.Err = fmt.Errorf("%w (and a twin has run and recorded the call since)", err.Err)
	default:
		err.Err = alongside(err.Err, c.d.auditBroken(ctx, nil, &c.Identity, cause))
	}
	return err
}

// auditBroken writes down that a record is broken, so that it can be found without an index
// on the records: claims and records would pay for that one. The record counts without it.
func (d *Deduper) auditBroken(ctx context.Context, conn *pgx.Conn, id *table.Identity, cause error) error {
	if conn == nil {
		pooled, err := d.acquire(ctx)
		if err != nil {
			return fmt.Errorf("dedup: writing the audit: %w", err)
		}
		defer d.release(ctx, pooled)
		conn = pooled.Conn()
	}
	if err := d.table().AuditBroken(ctx, conn, id, cleaned(cause).Error()); err != nil {
		return fmt.Errorf("dedup: writing the audit: %w", cleaned(err))
	}
	return nil
}
