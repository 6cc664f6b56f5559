package external

import (
	"errors"
	"fmt"
)

// ErrExists is returned by Perform if the provider has an effect of this key or id, or the key was
// used with other parameters, and the reply does not have the effect. The operation is looked up
// then. ErrExists is not a refusal: the effect may be this call's.
var ErrExists = errors.New("dedup: the provider already has an effect of this key")

// NotDone marks an error of Perform: this attempt had no effect and will have none. Examples are a
// failed connection and a reply of 429. The operation is attempted again after a pause. NotDone
// counts for the last request of an attempt only: if [Transport] saw an earlier one that may have
// taken effect, the outcome is unknown. NotDone(nil) is nil.
func NotDone(err error) error {
	if err == nil {
		return nil
	}
	return &notDoneError{err}
}

type notDoneError struct{ err error }

func (e *notDoneError) Error() string { return e.err.Error() }
func (e *notDoneError) Unwrap() error { return e.err }

// ParkedError is the error of a call whose effect may have happened and whose outcome the provider
// did not tell. Do not repeat it with a new key. The same call returns this error until an operator
// resolves the operation, a look-up finds the effect, or a late success arrives. An operation whose
// answer could not be recorded is parked too. Returned by [Handle.Do] and [Handle.Accept].
type ParkedError struct {
	Operation Operation
}

// Error implements error.
func (e *ParkedError) Error() string {
	return fmt.Sprintf("dedup: tool %q: the call may have taken effect; an operator must decide (see `dedup parked`); do not repeat it with a new key: %s",
		e.Operation.Tool, e.Operation.Note)
}

// IsAnswer is true: see [dedup.IsAnswer].
func (e *ParkedError) IsAnswer() bool { return true }

// unrecordable is the error of an effect that happened and whose result cannot be encoded.
type unrecordable struct {
	err error
	ref string
}

func (e *unrecordable) Error() string { return e.err.Error() }
func (e *unrecordable) Unwrap() error { return e.err }
