package runner

import (
	"fmt"
	"strings"

	"github.com/tooldedup/dedup"
)

// GaveUpError says that Do ended without an answer. It unwraps to Why and to
// Err, and with OutcomeUnknown and a key to call again with it is
// [dedup.ErrOutcomeUnknown] too.
type GaveUpError struct {
	Tool string
	// Key is the call's in the clear, to call again with; Error shows its hash.
	// Empty where it has none.
	Key string
	// Tries counts the tries that this Do made.
	Tries int

	// OutcomeUnknown says that a try may have taken effect: its answer was lost, a
	// twin is in flight, it is parked (Err wraps an *[external.ParkedError]), or the call is
	// Call.Resumed. It is never set for ReadOnly tools. Do not take the
	// call for failed: call again with the same key, or, where it has none or the
	// tool is Unclassified, look at the tool's
	// own data. What is parked is answered by a person: the same call later has the answer.
	OutcomeUnknown bool

	// Why is what ended the tries: none is left, Retry-After does not end before the deadline, or
	// the context's error. Nil where Err is one that another try cannot repair.
	Why error
	// Err is what the last try failed with; nil where there was none.
	Err error

	// repeats says that the same call may be made again.
	repeats bool
}

func (e *GaveUpError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "runner: gave up on %s", e.Tool)
	if e.Key != "" {
		fmt.Fprintf(&b, " (key %s)", dedup.KeyHash(e.Key))
	}
	switch e.Tries {
	case 0:
		b.WriteString(" before the first try")
	case 1:
		b.WriteString(" after 1 try")
	default:
		fmt.Fprintf(&b, " after %d tries", e.Tries)
	}
	switch {
	case e.Is(dedup.ErrOutcomeUnknown):
		b.WriteString("; it may have taken effect: call again with the same key")
	case e.OutcomeUnknown:
		b.WriteString("; it may have taken effect: look before you repeat it")
	}
	for _, err := range e.Unwrap() {
		fmt.Fprintf(&b, ": %v", err)
	}
	return b.String()
}

// Is matches [dedup.ErrOutcomeUnknown] where the outcome is unknown and calling again with the key
// is safe.
func (e *GaveUpError) Is(target error) bool {
	return target == dedup.ErrOutcomeUnknown && e.OutcomeUnknown && e.Key != "" && e.repeats
}

// Unwrap returns those of Why and Err that there are.
func (e *GaveUpError) Unwrap() (there []error) {
	for _, err := range []error{e.Why, e.Err} {
		if err != nil {
			there = append(there, err)
		}
	}
	return there
}

// Retryable tells a Do further out whether the same call may be made again: it
// has a key or harms nothing, and what ended it is not an answer. It is false for what is
// parked: that takes longer than any pause between tries.
func (e *GaveUpError) Retryable() bool {
	return e.repeats && !isParked(e.Err) && (e.Err == nil || e.OutcomeUnknown || IsRetryable(e.Err))
}
