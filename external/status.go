package external

import (
	"context"
	"time"

	"github.com/tooldedup/dedup"
)

// Status is the state of a call, for showing to its caller.
type Status struct {
	// State is the operation's if it is pending, running or parked. If the operation is answered,
	// it is the record's: done, refused or expired. If the record is broken, or was deleted by
	// hand, it is parked.
	State     State
	Operation Operation
	// Record is the call's record, zero if the operation has no answer.
	Record dedup.Status
}

// Status returns the state of a call. It runs nothing. StateNone means that nothing was sent, or
// that the operation is forgotten. If the call is one of package dedup alone, its record decides.
// Status takes one round trip if the operation has no answer, else two. The error is an
// [dedup.ErrInvalid] or the database's.
func (x *Tools) Status(ctx context.Context, scope, tool, key string) (Status, error) {
	id, err := identity(scope, tool, key)
	if err != nil {
		return Status{}, err
	}
	op, r, err := x.lookup(ctx, id)
	if err != nil {
		return Status{}, err
	}
	s := Status{State: op.State, Operation: op}
	if op.State != StateNone && op.State != StateDone {
		return s, nil
	}
	// Read the row first: the transaction that ends it also writes the record.
	if s.Record, err = x.d.Lookup(ctx, scope, tool, key); err != nil {
		return Status{}, err
	}
	s.State = answeredState(s.Record.State)
	if s.State == StateNone && r != nil && !r.forgotten() {
		s.State = StateParked
	}
	return s, nil
}

func answeredState(s dedup.State) State {
	switch s {
	case dedup.StateDone:
		return StateDone
	case dedup.StateRefused:
		return StateRefused
	case dedup.StateExpired:
		return StateExpired
	case dedup.StateBroken:
		return StateParked
	case dedup.StateInFlight:
		return StateRunning
	default:
		return StateNone
	}
}

// forgotten reports whether the row's record may be gone.
func (r *row) forgotten() bool {
	const later = 24 * time.Hour // a row is kept for a day longer than its record
	return r.forgetAt != nil && !r.now.Before(r.forgetAt.Add(-later))
}
