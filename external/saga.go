package external

import (
	"context"
	"errors"
	"fmt"

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
// what may still happen is never compensated. That includes a *[ParkedError].
func Saga(ctx context.Context, steps ...Step) error {
	for i, s := range steps {
		err := s.Do(ctx)
		refused, ok := errors.AsType[*dedup.RefusedError](err)
		if !ok && err != nil {
			return fmt.Errorf("dedup: step %q: %w", s.Name, err)
		}
		if !ok {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			if steps[j].Undo == nil {
				continue
			}
			if err := steps[j].Undo(ctx); err != nil {
				if errors.Is(err, dedup.ErrRefused) { // it is no refusal of the saga
					return fmt.Errorf("dedup: taking back step %q: %s", steps[j].Name, err.Error())
				}
				return fmt.Errorf("dedup: taking back step %q: %w", steps[j].Name, err)
			}
		}
		return &UndoneError{s.Name, refused}
	}
	return nil
}
