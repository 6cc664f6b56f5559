package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// ResetOptions say who frees an identity, and why.
type ResetOptions struct {
	// Reason is required. It goes to the tracer and to the audit.
	Reason string
	// Actor is who frees it. Default the database's role.
	Actor string
	// CreatedAt is the Status.CreatedAt of the record that was looked at. Where it is not
	// zero, a record that was written at another time is not freed: the error is an
	// ErrInvalid with the Field "CreatedAt".
	CreatedAt time.Time
}

// Reset frees an identity, so that its next call runs again: for an operator
// who has found out that a recorded answer is wrong, or has repaired what a
// broken effect left. It reports whether there was a record.
//
// The table tool_dedup_audit gets a line of it in the same statement. Where that table is
// missing the identity is freed all the same, and [ResetData] says so; where the role may
// not write to it, nothing is freed.
//
// A call in flight is not touched: the answer is ErrInFlight. A call with an effect outside of
// the database is not freed, because what happened at its provider stays: the error is an ErrInvalid
// with the Field "Tool". Other errors are ErrInvalid and the database's.
func (d *Deduper) Reset(ctx context.Context, scope, tool, key string, opts ResetOptions) (freed bool, err error) {
	if err := d.usable(ctx); err != nil {
		return false, err
	}
	id := table.Identity{Scope: scope, Tool: tool, Key: key}
	err = checkIdentity(id)
	if err == nil && opts.Reason == "" {
		err = missing("Reason", "must say why the identity is freed")
	}
	var audited bool
	if err == nil {
		freed, audited, err = d.reset(ctx, id, opts)
	}
	if err != nil {
		return false, annotate(id, err)
	}
	if trace := d.opts.Tracer; trace != nil {
		call := CallData{Func: "Reset", Scope: scope, Tool: tool, Key: key, KeyHash: KeyHash(key), Attrs: AttrsOf(ctx)}
		trace.TraceEvent(ctx, ResetData{CallData: call, Reason: opts.Reason, Actor: opts.Actor, Freed: freed, Audited: audited})
	}
	return freed, nil
}

func (d *Deduper) reset(ctx context.Context, id table.Identity, opts ResetOptions) (freed, audited bool, err error) {
	var seen table.Seen
	err = d.look(ctx, d.observer(id), &seen, (*table.Table).Probe)
	at := seen.Record.CreatedAt
	switch {
	case err != nil:
	case seen.Busy:
		return false, false, ErrInFlight
	case !seen.Found && !seen.Forgotten:
		return false, false, nil
	case !opts.CreatedAt.IsZero() && !opts.CreatedAt.Equal(at):
		return false, false, invalid("CreatedAt", "is not that of the record, which was written at %s; look it up again", at.UTC().Format(time.RFC3339Nano))
	default: // exactly the record that was seen
		freed, audited, err = d.resetSeen(ctx, id, at, table.Said{Actor: table.Storable(opts.Actor), Reason: table.Storable(opts.Reason)})
	}
	switch {
	case errors.Is(err, ErrInvalid):
		return false, false, err
	case errors.Is(err, table.ErrMayNotAudit):
		return false, false, fmt.Errorf("dedup: resetting: %w", cleaned(err))
	case err != nil:
		return false, false, fmt.Errorf("dedup: resetting: %w", d.withHint(err))
	}
	return freed, audited, nil
}

func (d *Deduper) resetSeen(ctx context.Context, id table.Identity, createdAt time.Time, by table.Said) (freed, audited bool, err error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return false, false, err
	}
	defer conn.Release()
	is, err := d.table().IsOperation(ctx, conn.Conn(), id)
	if is {
		err = invalid("Tool", "acts outside of the database: its answer cannot be freed, because the provider keeps what happened; for a second effect make a new call with a new key")
	}
	if err != nil {
		return false, false, err
	}
	return d.table().Reset(ctx, conn.Conn(), d.opts.CommitTimeout, id, createdAt, by)
}
