package dedup

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// recordBroken blocks the identity of a call whose effect ended its own transaction, so that a
// retry cannot repeat an effect that may be committed. It continues after the caller's context
// ends. on is a connection outside any transaction, because the pool may have no other. If it is
// nil, recordBroken takes one from the pool.
//
// If calls take locks, the identity was free from the moment at which the effect ended the
// transaction. If a twin has run since, the error reports it.
func (c *call) recordBroken(ctx context.Context, cause error, on *wire.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.d.opts.CommitTimeout)
	defer cancel()
	err := c.named(Error{Answer: ErrBroken, Err: redact(cause)})
	block := &call{request: c.request, written: table.Record{Outcome: table.Broken}}
	block.lookFirst = false
	block.span.ctx, block.span.call, block.span.began = c.span.ctx, c.span.call, c.span.began
	if on != nil {
		block.current = attempt{c: block, inOwnTx: true}
		end := (&ownTx{attempt: &block.current}).runOn(ctx, on)
		wire.Rollback(ctx, on.Conn())
		if end.kind == done && !block.written.CreatedAt.IsZero() || end.kind == found && block.seen.Record.IsBroken() {
			err.Err = joinErr(err.Err, c.d.auditBroken(ctx, on, &c.Identity, cause))
			return err
		}
	}
	failed := block.makeAttempts(ctx)
	switch {
	case failed != nil:
		err.Err = fmt.Errorf("%w (and it could not be recorded: %w)", err.Err, failed)
	case !block.executed && !block.rec.IsBroken():
		err.Err = fmt.Errorf("%w (and a twin has run and recorded the call since)", err.Err)
	default:
		err.Err = joinErr(err.Err, c.d.auditBroken(ctx, nil, &c.Identity, cause))
	}
	return err
}

// auditBroken writes a line of the audit, which lists broken records for operators. An index on the
// records would list them too, but would slow every claim and record down. The record is valid
// without the line.
func (d *Deduper) auditBroken(ctx context.Context, on *wire.Conn, id *table.Identity, cause error) error {
	if on == nil {
		pooled, err := d.acquire(ctx)
		if err != nil {
			return fmt.Errorf("dedup: writing the audit: %w", err)
		}
		defer d.release(ctx, pooled)
		on = wire.On(pooled.Conn())
	}
	if err := d.table().AuditBroken(ctx, on.Conn(), d.opts.CommitTimeout, id, redact(cause).Error()); err != nil {
		return fmt.Errorf("dedup: writing the audit: %w", redact(err))
	}
	return nil
}
