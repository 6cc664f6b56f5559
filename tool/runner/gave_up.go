package runner

import (
	"fmt"
	"strings"

	"github.com/tooldedup/dedup"
)

// GaveUpError is returned by Do if the call ended without an answer. It unwraps to Why and Err.
// With OutcomeUnknown and a key to call again with, it matches [dedup.ErrOutcomeUnknown].
type GaveUpError struct {
	Tool string
	// Key is the call's key in the clear, for calling again. Error prints its hash. It is empty for
	// a call without a key.
	Key string
	// Tries counts the tries of this Do.
	Tries int

	// OutcomeUnknown reports that a try may have taken effect: its answer was lost, a twin is in
	// flight, the operation is parked (Err wraps an *[external.ParkedError]), the call is blocked
	// (Err wraps [dedup.ErrBroken]), or the call is Resumed. It is false for ReadOnly tools.
	//
	// Do not treat such a call as failed. Call again with the same key. Without a key, or if the
	// tool is Unclassified, look at the tool's own data. A parked or blocked call waits for an
	// operator; the same call later returns its answer.
	OutcomeUnknown bool

	// Why is the reason why Do ended: no try is left, Retry-After is too long, or the context's
	// error. It is nil if another try cannot repair Err.
	Why error
	// Err is the last try's error. It is nil if nothing was tried.
	Err error

	// repeats reports whether the same call may be made again.
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

// Is matches [dedup.ErrOutcomeUnknown] if the outcome is unknown and the call may be made again
// with its key.
func (e *GaveUpError) Is(target error) bool {
	return target == dedup.ErrOutcomeUnknown && e.OutcomeUnknown && e.Key != "" && e.repeats
}

// Unwrap returns Why and Err, without nils.
func (e *GaveUpError) Unwrap() (errs []error) {
	for _, err := range []error{e.Why, e.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Retryable reports to an outer Do whether the same call may be made again: it has a key or is
// harmless to repeat, and the outcome is unknown or another try may repair Err. It is false for a
// parked or blocked call, whose operator takes longer than any pause between tries.
func (e *GaveUpError) Retryable() bool {
	return e.repeats && !needsOperator(e.Err) && (e.Err == nil || e.OutcomeUnknown || IsRetryable(e.Err))
}
