package external

import (
	"context"
	"time"

	"github.com/tooldedup/dedup"
)

// Status is the state of a call, for showing to its caller.
type Status struct {
	// State is the operation's if it is Pending, Running or Parked. If the operation is answered,
	// it is the record's: Done, Refused or Expired. If the record is broken, or was deleted by
	// hand, it is Parked.
	State     State
	Operation Operation
	// Record is the call's record, zero if the operation has no answer.
	Record dedup.Status
}

// Status returns the state of a call. It runs nothing. State None means that nothing was sent, or
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
	if op.State != None && op.State != Done {
		return s, nil
	}
	// Read the row first: the transaction that ends it also writes the record.
	if s.Record, err = x.d.Lookup(ctx, scope, tool, key); err != nil {
		return Status{}, err
	}
	s.State = answeredState(s.Record.State)
	if s.State == None && r != nil && !r.forgotten() {
		s.State = Parked
	}
	return s, nil
}

func answeredState(s dedup.State) State {
	switch s {
	case dedup.StateDone:
		return Done
	case dedup.StateRefused:
		return Refused
	case dedup.StateExpired:
		return Expired
	case dedup.StateBroken:
		return Parked
	case dedup.StateInFlight:
		return Running
	default:
		return None
	}
}

// forgotten reports whether the row's record may be gone.
func (r *row) forgotten() bool {
	const later = 24 * time.Hour // a row is kept for a day longer than its record
	return r.forgetAt != nil && !r.now.Before(r.forgetAt.Add(-later))
}
