package external

import (
	"errors"
	"fmt"
)

// ErrExists is what Perform returns when the provider says that it has happened under
// this key or id before, or that the key was used with other parameters, and the answer
// is not here: it is looked up. It is no refusal, because the first attempt may have
// been this call's.
var ErrExists = errors.New("dedup: the provider has an effect of this key already")

// NotDone marks an error of Perform: this attempt had no effect and will have none, as
// where no connection was made, or where the provider answered 429. The operation is
// attempted again after a pause. It is believed of the last request of an attempt only:
// where [Transport] knows of an earlier one that may have taken effect, the outcome is
// unknown. NotDone(nil) is nil.
func NotDone(err error) error {
	if err == nil {
		return nil
	}
	return &notDoneError{err}
}

type notDoneError struct{ err error }

func (e *notDoneError) Error() string { return e.err.Error() }
func (e *notDoneError) Unwrap() error { return e.err }

// ParkedError is the answer to a call whose effect may have happened, and where nobody but
// a person can find out. Do not repeat it with a new key. The same call may be made again
// at any time: it answers this until the operation is resolved. Returned by [Handle.Do]
// and [Handle.Accept].
type ParkedError struct {
	Operation Operation
}

// Error implements error.
func (e *ParkedError) Error() string {
	return fmt.Sprintf("dedup: tool %q: the call may have taken effect, and somebody has to find out (see `dedup parked`); do not repeat it with a new key: %s",
		e.Operation.Tool, e.Operation.Note)
}

// IsAnswer is true: see [dedup.IsAnswer].
func (e *ParkedError) IsAnswer() bool { return true }

// unrecordable is an effect that happened and whose result cannot be recorded.
type unrecordable struct {
	err error
	ref string
}

func (e *unrecordable) Error() string { return e.err.Error() }
func (e *unrecordable) Unwrap() error { return e.err }
