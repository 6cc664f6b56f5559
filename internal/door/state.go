package door

import (
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// State is the state of a call for clients.
type State string

// The states of calls. Only those of external tools are pending or parked.
const (
	StatePending  State = "pending"   // accepted, and not sent yet
	StateRunning  State = "running"   // no answer yet
	StateParked   State = "parked"    // it may have taken effect, and a person must decide
	StateDone     State = "done"      // its result is kept
	StateRefused  State = "refused"   // for good
	StateExpired  State = "expired"   // it ran, and its result expired or was never kept
	StateBroken   State = "broken"    // see dedup.ErrBroken
	StateNotFound State = "not_found" // it has not run, or is forgotten
)

// StateOf returns the state of a call from its operation and its record.
func StateOf(s external.Status) State {
	switch {
	case s.Operation.State != external.StateNone && s.State != external.StateNone:
		return State(s.State)
	case s.Record.State == dedup.StateInFlight:
		return StateRunning
	case s.Record.State == "", s.Record.State == dedup.StateNotFound:
		return StateNotFound
	default:
		return State(s.Record.State)
	}
}

// State returns the state of a call without an answer, running or parked. It is empty for any other
// failure.
func (f Failure) State() State {
	switch f.Code {
	case InFlight:
		return StateRunning
	case Parked:
		return StateParked
	default:
		return ""
	}
}

// parkedRetryAfter is a typical time for a person to decide.
const parkedRetryAfter = 5 * time.Minute

// RetryAfter returns the time after which to ask again. running is that time for a running call. It
// is zero if the state will not change.
func (s State) RetryAfter(running time.Duration) time.Duration {
	switch s {
	case StatePending, StateRunning:
		return running
	case StateParked:
		return parkedRetryAfter
	default:
		return 0
	}
}
