package external

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tooldedup/dedup"
)

// Step is one step of a saga. Do and Undo make calls that take effect once, by keys of
// their own, so that both may be called any number of times. A step without Undo is not
// taken back.
type Step struct {
	Name     string
	Do, Undo func(ctx context.Context) error
}

// UndoneError says that a saga was taken back because a step was refused.
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

// Saga runs the steps in order. It has no state of its own: what was done is in the steps'
// records, and a recorded refusal is the only thing that turns it around, so that every
// process that calls it decides the same. Then the steps before the refused one are taken
// back, the last one first, and the answer is an *[UndoneError].
//
// Any other error means that the saga has to be called again, and nothing was taken back:
// what may still happen is never compensated. That includes a *[ParkedError]. An Undo that is
// refused stays refused: the steps before it are taken back all the same, and the error, no
// *[UndoneError] and no [dedup.ErrRefused], names it whenever the saga is called. A person has to take
// that step back, or its Undo another way.
//
// The steps of a saga that is under way must keep their order and their keys from one release to the next: a refused step
// takes back the steps before it, and no others.
//
// Nothing calls it again when its caller has died. A saga goes on by itself where it is run in the
// Perform of a [Tool] with KeyKept: [Forever], which may be repeated as the saga may be.
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

// undoAll takes steps back, the last one first. What is refused is told when the others are done.
func undoAll(ctx context.Context, steps []Step) error {
	var kept []error
	for _, s := range slices.Backward(steps) {
		if s.Undo == nil {
			continue
		}
		err := s.Undo(ctx)
		switch {
		case errors.Is(err, dedup.ErrRefused): // it is no refusal of the saga
			kept = append(kept, fmt.Errorf("dedup: taking back step %q: %s", s.Name, err.Error()))
		case err != nil:
			return errors.Join(append(kept, fmt.Errorf("dedup: taking back step %q: %w", s.Name, err))...)
		}
	}
	return errors.Join(kept...)
}
