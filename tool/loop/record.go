package loop

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// modelTool is the tool of the records of the model's messages.
const modelTool = "model"

// record returns the call that records the model's message of a turn.
func (r *Run) record(turn int) (dedup.Call, error) {
	if r.session == "" {
		return dedup.Call{}, &dedup.InvalidError{What: "call", Field: "Session", Missing: true, Reason: "is empty; name the conversation and the user's message in it"}
	}
	if r.tools.Deduper().Options().Retention.Result < 0 {
		return dedup.Call{}, invalid("Retention", "of the Deduper keeps no answers, and a run needs its messages; give the tools that keep none a Retention of their own")
	}
	key, err := dedup.KeyFromIntent("loop", r.session, strconv.Itoa(turn))
	return dedup.Call{Scope: r.scope, Tool: modelTool, Key: key}, err
}

// keep records a message from the model, or returns the recorded one.
func keep[M any](ctx context.Context, d *dedup.Deduper, call dedup.Call, m M, asked bool) (M, error) {
	call.LookFirst = !asked
	result, err := dedup.Do(ctx, d, call, func(context.Context, pgx.Tx) (M, error) {
		if !asked {
			return m, errForgotten
		}
		return m, nil
	})
	return result.Value, err
}

// MessageError is returned by [Next] if the model's message of a turn cannot be recorded or read
// again.
type MessageError struct {
	// Turn is the number of the message in the run, from 1.
	Turn int
	// Err is the error of package dedup: a *[dedup.InvalidError], ErrExpired or ErrBroken.
	Err error
}

// Error implements error.
func (e *MessageError) Error() string {
	what := "cannot be recorded; raise dedup's Options.MaxResultBytes, or ask for shorter messages"
	var invalid *dedup.InvalidError
	switch {
	case errors.Is(e.Err, dedup.ErrExpired):
		what = "is no longer kept, and the run cannot be resumed; raise Retention.Result above the longest pause of a run"
	case errors.Is(e.Err, dedup.ErrBroken):
		what = "is blocked"
	case errors.As(e.Err, &invalid) && invalid.Stored != nil:
		what = "was recorded by another release, and no longer fits"
	case errors.As(e.Err, &invalid) && invalid.What == "call":
		what = "cannot be named"
	}
	return fmt.Sprintf("loop: message %d of the model %s: %v", e.Turn, what, e.Err)
}

// Unwrap returns Err.
func (e *MessageError) Unwrap() error { return e.Err }
