package dedup

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Reset frees an identity, so that its next call runs again: for an operator
// who has found out that a recorded answer is wrong, or has repaired what a
// broken effect left. It reports whether there was a record. The reason is
// required and goes to the tracer.
//
// A call in flight is not touched: the answer is ErrInFlight. Other errors are
// *InvalidCallError and the database's.
func (d *Deduper) Reset(ctx context.Context, scope, tool, key, reason string) (freed bool, err error) {
	if err := d.usable(ctx); err != nil {
		return false, err
	}
	id, err := checkIdentity(scope, tool, key)
	if err == nil && reason == "" {
		err = &InvalidCallError{Field: "reason", Reason: "must say why the identity is freed"}
	}
	if err == nil {
		freed, err = d.reset(ctx, id)
	}
	if err != nil {
		return false, ofTool(tool, err)
	}
	data := ResetData{CallData: id.data(), Reason: reason, Freed: freed}
	for _, t := range d.trace.reset {
		t.TraceReset(ctx, data)
	}
	return freed, nil
}

func (d *Deduper) reset(ctx context.Context, id identity) (bool, error) {
	req := &request{identity: id, lock: id.lockKey(d.opts.Schema), retention: d.opts.Retention}
	seen, err := d.look(ctx, req, d.order.probe)
	if err == nil && seen.busy {
		return false, ErrInFlight
	}
	var tag pgconn.CommandTag
	if err == nil && seen.rec.outcome != "" { // exactly the record that was seen
		tag, err = d.exec(ctx, d.sql.reset, id.scope, id.tool, id.key, seen.rec.createdAt)
	}
	if err != nil {
		return false, fmt.Errorf("dedup: resetting: %w", d.explained(err))
	}
	return tag.RowsAffected() > 0, nil
}

// exec runs one statement on a connection of its own.
func (d *Deduper) exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer conn.Release()
	return conn.Exec(ctx, sql, args...)
}
