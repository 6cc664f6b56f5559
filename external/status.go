package external

import (
	"context"
	"time"

	"github.com/tooldedup/dedup"
)

// Status is where a call stands, as those are told who ask what became of it.
type Status struct {
	// State is that of the operation as long as it is Pending, Running or Parked. Where it is
	// answered, it is what the record says: Done, Refused or Expired. A call whose record is
	// broken, or was deleted by hand, is Parked.
	State     State
	Operation Operation
	// Record is the call's record, zero as long as the operation has no answer.
	Record dedup.Status
}

// Status says where a call stands. It runs nothing. State None is certain: nothing was sent, unless the
// operation has been forgotten since.
// Another tool's call, one of package dedup alone, is answered by its record. One round trip as
// long as the operation has no answer, else two. The error is an [dedup.ErrInvalid] or the database's.
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
	// The row is read first: a record is written in the transaction that ends it.
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

// forgotten reports whether the record of a row may be gone.
func (r *row) forgotten() bool {
	const later = 24 * time.Hour // than its record's
	return r.forgetAt != nil && !r.now.Before(r.forgetAt.Add(-later))
}
