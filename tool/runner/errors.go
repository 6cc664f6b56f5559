package runner

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
)

var (
	// ErrGaveUp matches every *[GaveUpError]. Do returns it.
	ErrGaveUp = errors.New("runner: gave up")

	// ErrTriesUsedUp is GaveUpError.Why where the policy allows no further try.
	ErrTriesUsedUp = errors.New("no try is left")

	// ErrWaitTooLong is wrapped by GaveUpError.Why where a server's Retry-After does
	// not end before the deadline of the call's context. The pause was not begun.
	ErrWaitTooLong = errors.New("the server's Retry-After outlasts the deadline")

	// ErrKeyConflict matches every *[KeyConflictError]. Transport and PutMeta
	// return it.
	ErrKeyConflict = errors.New("runner: another idempotency key is there already")

	// ErrPlan matches every *[PlanError]. LoadPlan and Plan's methods return it.
	ErrPlan = errors.New("runner: unusable plan")

	// ErrStepUnsaved is wrapped by the *[PlanError] of Plan.Key where the step's
	// key has not been saved. Save the plan first.
	ErrStepUnsaved = errors.New("its key has not been saved; save the plan before the first try")
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
	// Pauses are those that were begun, in order.
	Pauses []time.Duration

	// OutcomeUnknown says that a try may have taken effect: its answer was lost, a
	// twin is in flight, it is parked (Err wraps an *[external.ParkedError]), or the call is
	// Call.Resumed. It is never set for ReadOnly tools. Do not take the
	// call for failed: call again with the same key, or, where it has none or the
	// class's policy does not trust it (Unclassified), look at the tool's
	// own data. What is parked is answered by a person: the same call later has the answer.
	OutcomeUnknown bool

	// Why is what ended the tries: ErrTriesUsedUp, ErrWaitTooLong or the context's
	// error. Nil where Err is one that another try cannot repair.
	Why error
	// Err is what the last try failed with; nil where there was none.
	Err error

	// repeatable says that the same call may be made again.
	repeatable bool
	// untrusted says that there is a key with which the call may not be.
	untrusted bool
}

func (e *GaveUpError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "runner: gave up on %s", e.Tool)
	if e.Key != "" {
		fmt.Fprintf(&b, " (key %s)", keyHash(e.Key))
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
	case e.OutcomeUnknown && e.trustsKey():
		b.WriteString("; it may have taken effect: call again with the same key")
	case e.OutcomeUnknown:
		b.WriteString("; it may have taken effect: look before you repeat it")
	}
	for _, err := range e.Unwrap() {
		fmt.Fprintf(&b, ": %v", err)
	}
	return b.String()
}

// Is matches ErrGaveUp, and [dedup.ErrOutcomeUnknown] where the outcome is
// unknown and there is a key to call again with.
func (e *GaveUpError) Is(target error) bool {
	return target == ErrGaveUp || target == dedup.ErrOutcomeUnknown && e.OutcomeUnknown && e.trustsKey()
}

// trustsKey reports whether calling again with the key is safe.
func (e *GaveUpError) trustsKey() bool { return e.Key != "" && !e.untrusted }

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
	return e.repeatable && !isParked(e.Err) && (e.Err == nil || e.OutcomeUnknown || IsRetryable(e.Err))
}

// KeyConflictError says that a request carries another key than its context, so
// that two layers have made one each. Nothing was sent. Let only the outermost
// make it, or hide the context's with WithKey(ctx, "").
type KeyConflictError struct {
	// Where names the place of the other key.
	Where string
	// There and Carried are hashes ([dedup.KeyHash]) of the key found there and of
	// the context's. There is empty where what was found is no key.
	There, Carried string
}

func (e *KeyConflictError) Error() string {
	there := "something that is no key"
	if e.There != "" {
		there = "key " + e.There
	}
	return fmt.Sprintf("runner: %s has %s already, and the context carries key %s; let one layer make the key", e.Where, there, e.Carried)
}

// Is matches ErrKeyConflict.
func (e *KeyConflictError) Is(target error) bool { return target == ErrKeyConflict }

// PlanError says what is wrong with a plan or one of its steps.
type PlanError struct {
	// Step is the step's name, empty where it is about the plan.
	Step string
	// Reason says what is wrong and what to do about it. It never holds a key.
	Reason string
	// Err is the cause, if there is one.
	Err error
}

func (e *PlanError) Error() string {
	var b strings.Builder
	b.WriteString("runner: plan: ")
	if e.Step != "" {
		fmt.Fprintf(&b, "step %q: ", e.Step)
	}
	b.WriteString(e.Reason)
	if e.Err != nil {
		if e.Reason != "" {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Is matches ErrPlan.
func (e *PlanError) Is(target error) bool { return target == ErrPlan }

// Unwrap returns the cause, or nil.
func (e *PlanError) Unwrap() error { return e.Err }
