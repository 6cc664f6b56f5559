package canon

import "fmt"

// Error says why arguments have no canonical form, and so no fingerprint.
type Error struct {
	// Reason says what is wrong and what to do about it. It gives byte positions and
	// lengths, never a value.
	Reason string
	// Err is the error of a method of the arguments, such as MarshalJSON; mostly nil.
	Err error
}

// Error implements error. It leaves Err out, which may quote a value.
func (e *Error) Error() string { return e.Reason }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func refuse(format string, args ...any) *Error { return &Error{Reason: fmt.Sprintf(format, args...)} }
