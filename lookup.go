package dedup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// State is what [Deduper.Lookup] finds of an identity.
type State int

const (
	// StateNotFound: no record and no twin in flight. The call has not run, or
	// it ran so long ago that it is forgotten.
	StateNotFound State = iota
	// StateInFlight: a call is running right now. No row says so; its lock or
	// claim does.
	StateInFlight
	// StateDone: the call ran and its result is here.
	StateDone
	// StateRefused: the tool refused and the refusal is here.
	StateRefused
	// StateExpired: the call ran and its result is gone.
	StateExpired
	// StateBroken: the effect ended its own transaction; see ErrBroken.
	StateBroken
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case StateNotFound:
		return "not found"
	case StateInFlight:
		return "in flight"
	case StateDone:
		return "done"
	case StateRefused:
		return "refused"
	case StateExpired:
		return "expired"
	case StateBroken:
		return "broken"
	default:
		return fmt.Sprintf("State(%d)", int(s))
	}
}

// Status is what is known of an identity.
type Status struct {
	State State
	// Result is the recorded JSON text, in StateDone.
	Result json.RawMessage
	// Refusal is the recorded refusal, in StateRefused.
	Refusal *RefusedError
	// Fingerprint is that of the first call's arguments, where there is a
	// record.
	Fingerprint Fingerprint
	// CreatedAt, ExpiresAt and ForgetAt are the record's times and Now the time
	// of the look-up, all by the database's clock; zero without a record.
	CreatedAt, ExpiresAt, ForgetAt, Now time.Time
}

// Lookup tells what became of a call, for those who lost its answer and cannot
// or will not call again. One round trip; nothing is written with LockFirst.
// With ClaimFirst only a claim can tell whether a twin is in flight, so one is
// made and rolled back.
//
// "Not found" right after a lost COMMIT is only said when the backend that was
// to commit has ended, because its lock or claim outlives the commit. The error
// is an *InvalidCallError or the database's.
func (d *Deduper) Lookup(ctx context.Context, scope, tool, key string) (Status, error) {
	if err := d.usable(ctx); err != nil {
		return Status{}, err
	}
	id, err := checkIdentity(scope, tool, key)
	if err != nil {
		return Status{}, ofTool(tool, err)
	}
	req := &request{identity: id, lock: id.lockKey(d.opts.Schema), retention: d.opts.Retention}
	seen, err := d.look(ctx, req, d.order.probe)
	if err != nil {
		return Status{}, ofTool(tool, fmt.Errorf("dedup: looking up: %w", d.explained(err)))
	}
	switch {
	case seen.found:
		return seen.rec.status()
	case seen.busy:
		return Status{State: StateInFlight}, nil
	default:
		return Status{State: StateNotFound}, nil
	}
}

func (r *record) status() (Status, error) {
	s := Status{
		Fingerprint: r.fingerprint,
		CreatedAt:   r.createdAt, ExpiresAt: r.expiresAt, ForgetAt: r.forgetAt, Now: r.seenAt,
	}
	switch {
	case r.isBroken():
		s.State = StateBroken
	case r.expired():
		s.State = StateExpired
	case r.outcome == outcomeRefused:
		s.State = StateRefused
		if err := decodeRefusal(r.result, r.createdAt); !errors.As(err, &s.Refusal) {
			return s, err
		}
	default:
		s.State = StateDone
		s.Result = json.RawMessage(r.result)
	}
	return s, nil
}
