package external

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tooldedup/dedup"
)

// Step is one step of a saga. Do and Undo make calls of this package or of package dedup with keys
// of their own, so that each may be called any number of times. A step without Undo is not taken
// back.
type Step struct {
	Name     string
	Do, Undo func(ctx context.Context) error
}

// UndoneError is returned by [Saga] if a step was refused and the steps before it were taken back.
type UndoneError struct {
	Step    string
	Refusal *dedup.RefusedError
}

// Error implements error.
func (e *UndoneError) Error() string {
	return fmt.Sprintf("dedup: taken back because of step %q: %v", e.Step, e.Refusal)
}

// Unwrap returns the refusal.
func (e *UndoneError) Unwrap() error { return e.Refusal }

// Saga runs the steps in order. If a step returns a recorded refusal, Saga takes back the steps
// before it, the last one first, and returns an *[UndoneError]. Saga keeps no state: the steps'
// records have it. So every process that calls it decides the same.
//
// After any other error, a *[ParkedError] included, nothing was taken back: call the saga again. A
// step that may still take effect is never taken back.
//
// If an Undo is refused, the refusal is final. The steps before it are taken back, and every call
// of the saga returns an error that names the step. That error is neither an *[UndoneError] nor a
// [dedup.ErrRefused]. An operator must take that step back, or its Undo must do it another way.
//
// While a saga is under way, its steps must keep their order and their keys from one release to the
// next.
//
// If the caller dies, nothing calls the saga again. To have it continue, run it in the Perform of a
// [Tool] with KeyKept: [Forever]: such a Perform may be repeated.
func Saga(ctx context.Context, steps ...Step) error {
	for i, s := range steps {
		err := s.Do(ctx)
		if refused, ok := errors.AsType[*dedup.RefusedError](err); ok {
			if err := undoAll(ctx, steps[:i]); err != nil {
				return err
			}
			return &UndoneError{s.Name, refused}
		}
		if err != nil {
			return fmt.Errorf("dedup: step %q: %w", s.Name, err)
		}
	}
	return nil
}

// undoAll takes steps back, the last one first. It returns the errors of refused Undos after all
// others are done.
func undoAll(ctx context.Context, steps []Step) error {
	var kept []error
	for _, s := range slices.Backward(steps) {
		if s.Undo == nil {
			continue
		}
		err := s.Undo(ctx)
		switch {
		case errors.Is(err, dedup.ErrRefused): // not wrapped: the saga is not refused
			kept = append(kept, fmt.Errorf("dedup: taking back step %q: %s", s.Name, err.Error()))
		case err != nil:
			return errors.Join(append(kept, fmt.Errorf("dedup: taking back step %q: %w", s.Name, err))...)
		}
	}
	return errors.Join(kept...)
}
