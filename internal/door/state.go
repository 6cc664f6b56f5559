package door

import (
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// State is where a call stands, as clients are told it.
type State string

// The states of calls. Only those of external tools are pending or parked.
const (
	StatePending State = "pending" // accepted, and nothing was sent yet
	StateRunning State = "running" // no answer yet
	StateParked  State = "parked"  // it may have taken effect, and a person has to find out
	StateDone    State = "done"    // its result is kept
	StateRefused State = "refused" // for good
	StateExpired State = "expired" // it was answered, and the answer is gone
	StateBroken  State = "broken"  // it may have taken effect; see dedup.ErrBroken
	StateUnknown State = "unknown" // it has not run, or is forgotten
)

// StateOf says where a call stands, by what is known of its operation and of its record.
func StateOf(s external.Status) State {
	switch {
	case s.Operation.State != external.None && s.State != external.None:
		return State(s.State)
	case s.Record.State == dedup.StateInFlight:
		return StateRunning
	case s.Record.State == "", s.Record.State == dedup.StateNotFound:
		return StateUnknown
	default:
		return State(s.Record.State)
	}
}

// State says where a call stands that has no answer yet: it is running or parked. It is empty of
// any other failure.
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

// parkedRetryAfter is how long a person may well take to find out.
const parkedRetryAfter = 5 * time.Minute

// RetryAfter is when to ask again, with running that of calls that run. It is zero where nothing
// is to change.
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
