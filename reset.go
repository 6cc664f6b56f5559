package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
)

// ChangeOptions say who changes records by hand, and why. They are for [Deduper.Reset],
// [Deduper.Resolve] and [Deduper.Erase].
type ChangeOptions struct {
	// Reason is required. It goes to the tracer and to the audit.
	Reason string
	// Actor is the operator's name. Default: the database role.
	Actor string
	// CreatedAt is the Status.CreatedAt of the record that the operator looked at. If it is not
	// zero and the record was written at another time, nothing is changed: the error is an
	// ErrInvalid with the Field "CreatedAt". It must be zero for Erase.
	CreatedAt time.Time
}

// Reset frees an identity: it deletes the record, so that the next call runs the effect. Use it
// after a recorded answer proved wrong, or after repairing a broken effect. It reports whether
// there was a record.
//
// Reset adds a line to the table tool_dedup_audit in the same statement. If the table is missing,
// the identity is freed without a line, and [ChangedData] reports that. If the role may not write
// to the table, nothing is freed.
//
// Reset does not touch a call in flight: the error is ErrInFlight. It does not free a call with an
// effect outside the database, because the effect at the provider remains: the error is an
// ErrInvalid with the Field "Tool". Other errors are ErrInvalid, ErrSchema and errors of the
// database.
func (d *Deduper) Reset(ctx context.Context, scope, tool, key string, opts ChangeOptions) (freed bool, err error) {
	var audited bool
	id := table.Identity{Scope: scope, Tool: tool, Key: key}
	if err := d.checkChange(ctx, id, opts); err != nil {
		return false, err
	}
	freed, audited, err = d.changeRecord(ctx, id, opts, func(conn *pgx.Conn, e *table.Entry, r *table.Record, by table.Operator) (freed, audited bool, err error) {
		return d.table().Reset(ctx, conn, d.opts.CommitTimeout, e.Identity, r.CreatedAt, by)
	})
	if err != nil {
		return false, annotate(id, err)
	}
	d.traceChange(ctx, ChangedData{CallData: CallData{Func: "Reset"}, Freed: freed, Audited: audited}, id, opts)
	return freed, nil
}

// Resolve records the result of a broken call. Use it after verifying that the effect happened, and
// completing missing parts. Later calls of the identity replay the result. Resolve reports whether
// there was a record.
//
// result is encoded as JSON. It should be the result that the effect would have returned; Resolve
// cannot check it against the caller's type. It is kept for the Deduper's Retention, from now on.
// If that keeps no answer, or the call kept none, no result is stored: later calls get
// [ErrExpired].
//
// The audit, a call in flight and a call with an effect outside the database are treated as in
// [Deduper.Reset]. A record that is not broken, or is erased, is left unchanged: the error is an
// ErrInvalid with the Field "Record".
func (d *Deduper) Resolve(ctx context.Context, scope, tool, key string, result any, opts ChangeOptions) (resolved bool, err error) {
	id := table.Identity{Scope: scope, Tool: tool, Key: key}
	if err := d.checkChange(ctx, id, opts); err != nil {
		return false, err
	}
	text, err := encodeResult(result, d.opts.MaxResultBytes)
	if err != nil {
		return false, annotate(id, err)
	}
	resolved, audited, err := d.changeRecord(ctx, id, opts, func(conn *pgx.Conn, e *table.Entry, r *table.Record, by table.Operator) (resolved, audited bool, err error) {
		if !r.IsBroken() {
			return false, false, invalid("Record", "is not broken: it has an answer, which is not changed")
		}
		if r.Erased() {
			return false, false, invalid("Record", "is erased: no call can get its result any more")
		}
		return d.table().Resolve(ctx, conn, d.opts.CommitTimeout, e, r, string(text), by)
	})
	if err != nil {
		return false, annotate(id, err)
	}
	d.traceChange(ctx, ChangedData{CallData: CallData{Func: "Resolve"}, Resolved: resolved, Audited: audited}, id, opts)
	return resolved, nil
}

// checkChange checks the input of Reset and Resolve.
func (d *Deduper) checkChange(ctx context.Context, id table.Identity, opts ChangeOptions) error {
	if err := d.outside(ctx); err != nil {
		return err
	}
	err := checkIdentity(id)
	if err == nil {
		err = opts.check()
	}
	if err != nil {
		return annotate(id, err)
	}
	return nil
}

func (o *ChangeOptions) check() error {
	if o.Reason == "" {
		return missing("Reason", "must say why")
	}
	return nil
}

// operator returns the operator and the reason, as the audit stores them.
func (o *ChangeOptions) operator() table.Operator {
	return table.Operator{Actor: table.Storable(o.Actor), Reason: table.Storable(o.Reason)}
}

func (d *Deduper) traceChange(ctx context.Context, data ChangedData, id table.Identity, opts ChangeOptions) {
	trace := d.opts.Tracer
	if trace == nil {
		return
	}
	data.Scope, data.Tool, data.Key, data.Attrs = id.Scope, id.Tool, id.Key, AttrsOf(ctx)
	if id.Key != "" { // else it belongs to many calls
		data.KeyHash = KeyHash(id.Key)
	}
	data.Reason, data.Actor = opts.Reason, opts.Actor
	trace.TraceEvent(ctx, data)
}

// change changes a record that was looked up. It reports whether the record was still there, and
// whether the audit has a line of the change.
type change func(conn *pgx.Conn, e *table.Entry, r *table.Record, by table.Operator) (changed, audited bool, err error)

// changeRecord changes the record of an identity, if no call is in flight.
func (d *Deduper) changeRecord(ctx context.Context, id table.Identity, opts ChangeOptions, apply change) (changed, audited bool, err error) {
	var seen table.Seen
	e := d.entryOf(id)
	err = d.findTwin(ctx, e, &seen)
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
		changed, audited, err = d.changeSeen(ctx, e, &seen.Record, opts.operator(), apply)
	}
	switch {
	case errors.Is(err, ErrInvalid):
		return false, false, err
	case errors.Is(err, table.ErrMayNotAudit):
		return false, false, fmt.Errorf("dedup: changing the record: %w", redact(err))
	case err != nil:
		return false, false, fmt.Errorf("dedup: changing the record: %w", d.withHint(err))
	}
	return changed, audited, nil
}

func (d *Deduper) changeSeen(ctx context.Context, e *table.Entry, seen *table.Record, by table.Operator, apply change) (changed, audited bool, err error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return false, false, err
	}
	defer conn.Release()
	isOperation, err := d.table().IsOperation(ctx, conn.Conn(), e.Identity)
	if isOperation {
		err = invalid("Tool", "acts outside the database: its answer cannot be freed, because the provider keeps what happened; for a second effect make a new call with a new key")
	}
	if err != nil {
		return false, false, err
	}
	return apply(conn.Conn(), e, seen, by)
}
