package dedup

import (
	"context"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// Reset frees an identity, so that its next call runs again: for an operator
// who has found out that a recorded answer is wrong, or has repaired what a
// broken effect left. It reports whether there was a record. The reason is
// required and goes to the tracer.
//
// A call in flight is not touched: the answer is ErrInFlight. Other errors are
// ErrInvalid and the database's.
func (d *Deduper) Reset(ctx context.Context, scope, tool, key, reason string) (freed bool, err error) {
	if err := d.usable(ctx); err != nil {
		return false, err
	}
	id, err := checkIdentity(scope, tool, key)
	if err == nil && reason == "" {
		err = invalid("reason", "must say why the identity is freed")
	}
	if err == nil {
		freed, err = d.reset(ctx, id)
	}
	if err != nil {
		return false, errorOf(&Call{Scope: scope, Tool: tool, Key: key}, err)
	}
	data := ResetData{CallData: callData("Reset", id), Reason: reason, Freed: freed}
	for _, t := range d.trace.reset {
		t.TraceReset(ctx, data)
	}
	return freed, nil
}

func (d *Deduper) reset(ctx context.Context, id table.Identity) (freed bool, err error) {
	seen, err := d.look(ctx, d.stranger(id), d.table.Probe)
	if err == nil && seen.Busy {
		return false, ErrInFlight
	}
	if err == nil && (seen.Found || seen.Forgotten) { // exactly the record that was seen
		freed, err = d.resetSeen(ctx, id, seen.Record.CreatedAt)
	}
	if err != nil {
		return false, fmt.Errorf("dedup: resetting: %w", d.explained(err))
	}
	return freed, nil
}

func (d *Deduper) resetSeen(ctx context.Context, id table.Identity, createdAt time.Time) (bool, error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	return d.table.Reset(ctx, conn.Conn(), id, createdAt)
}
