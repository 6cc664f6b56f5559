package mixed

import (
	"context"
	"errors"
	"fmt"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// outcomes are the errors that a call of the storm may answer with.
var outcomes = []struct {
	name string
	is   func(error) bool
}{
	{"effect failed", is(errEffect)},
	{"cancelled", func(err error) bool {
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}},
	{"in flight", is(dedup.ErrInFlight)},
	{"expired", is(dedup.ErrExpired)},
	{"outcome unknown", is(dedup.ErrOutcomeUnknown)},
	{"attempts exhausted", is(dedup.ErrAttemptsExhausted)},
	{"restart the transaction", is(dedup.ErrRestartTx)},
	{"transient", func(err error) bool { return dedup.IsTransient(err) || dedup.IsRetryable(err) }},
	{"the caller's own transaction", func(err error) bool { return errors.As(err, &lab.OwnError{}) }},
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// note counts the outcome of a call.
func (s *storm) note(d *draw, err error) {
	name := "no error"
	if err != nil {
		name = ""
		for _, o := range outcomes {
			if o.is(err) {
				name = o.name
				break
			}
		}
	}
	if name == "" {
		name = "unexpected"
		s.unexpected(fmt.Errorf("%s: %w", d.name, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[d.way.Name+": "+name]++
}

// unexpected keeps the first error that no call may answer with.
func (s *storm) unexpected(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = err
	}
}

// panicked counts a panic that is not an effect's.
func (s *storm) panicked(err error) {
	s.unexpected(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.panics++
}
