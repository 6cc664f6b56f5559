package deduptest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// reply is the result of one call.
type reply struct {
	text string // the answer, as canonical JSON
	err  error
}

// errStuck means that a call did not return long after its context ended.
var errStuck = errors.New("the call does not return after its context has ended")

// panicError is a panic of the tool.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// start makes a call on a new goroutine and returns the channel of its reply. If the call is stuck,
// the reply is errStuck.
func (t Tool) start(ctx context.Context, patience time.Duration, s *stage, key string, variant int) <-chan reply {
	replies := make(chan reply, 2) // a stuck call may still reply
	stuck := time.AfterFunc(2*patience, func() { replies <- reply{err: errStuck} })
	go func() {
		defer stuck.Stop()
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		replies <- t.call(ctx, Try{Deduper: s.deduper, Pool: s.pool, Key: key, Variant: variant})
	}()
	return replies
}

func (t Tool) call(ctx context.Context, try Try) (r reply) {
	defer func() {
		if value := recover(); value != nil {
			r = reply{err: &panicError{value}}
		}
	}()
	answer, err := t.Call(ctx, try)
	if err != nil {
		return reply{err: err}
	}
	text, err := canonical(answer)
	return reply{text: text, err: err}
}
