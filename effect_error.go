package dedup

import (
	"errors"
	"fmt"
)

// effectError is an error of an effect, or of a statement in its place, and not of the
// library. It hides the answers of other calls in it: an effect that returns the ErrRefused
// of a DoTx inside it has failed, and has not refused.
type effectError struct{ err error }

// byEffect marks an error as the effect's.
func byEffect(err error) error {
	if _, marked := err.(*effectError); marked || err == nil {
		return err
	}
	return &effectError{err}
}

// effectsOwn returns an effect's error as the effect returned it, and any other as it is.
func effectsOwn(err error) error {
	if marked, ok := err.(*effectError); ok {
		return marked.err
	}
	return err
}

// withoutAnswers returns an effect's error as callers get it.
func withoutAnswers(err error) error {
	for _, answer := range answers() {
		if errors.Is(err, answer) {
			return &effectError{err}
		}
	}
	return err
}

// answers are those that a call has, and that an effect's error can be of another call.
func answers() [9]error {
	return [...]error{
		ErrInFlight, ErrOutcomeUnknown, ErrAttemptsExhausted, ErrRestartTx, ErrRefused, ErrExpired, ErrKeyReused, ErrBroken, ErrSchema,
	}
}

// Error implements error.
func (e *effectError) Error() string { return e.err.Error() }

// Is reports what the effect's error is, but for answers.
func (e *effectError) Is(target error) bool {
	for _, answer := range answers() {
		if target == answer {
			return false
		}
	}
	return errors.Is(e.err, target)
}

// As finds what the effect's error holds, but for answers.
func (e *effectError) As(target any) bool {
	switch target.(type) {
	case **Error, **RefusedError:
		return false
	}
	return errors.As(e.err, target)
}

// alongside returns err, and what else went wrong beside it.
func alongside(err, other error) error {
	switch {
	case err == nil:
		return other
	case other == nil:
		return err
	}
	if _, effects := err.(*effectError); effects {
		return byEffect(fmt.Errorf("%w (and %w)", effectsOwn(err), other))
	}
	return fmt.Errorf("%w (and %w)", err, other)
}
