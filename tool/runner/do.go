package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// Call is one call of a tool: one intent, in any number of tries.
type Call struct {
	// Tool is the tool's stable name. Required.
	Tool string
	// Class is the tool's class. It decides whether Do may try again. Leave a tool that takes no
	// key, and is neither ReadOnly nor Idempotent, Unclassified: it is tried once.
	Class tool.Class

	// Key names the intent. If it must survive this process, take it from a [Plan] or another
	// checkpoint. If it is empty, Do uses the context's key, but not one that an outer Do put there
	// for another tool. If there is none, Do makes a new key for a class that needs one; the
	// process's end loses it. A ReadOnly tool uses only the key given here.
	Key string
	// Resumed says that an earlier process may have tried the key. The outcome then counts as
	// unknown until the call is answered.
	Resumed bool

	// Tries is the maximum number of tries, the first included. Default: 3, and 1 for an
	// Unclassified tool.
	Tries int
	// Pause is the maximum of the first pause. The maximum doubles with each further pause, up to a
	// minute, or up to Pause if that is longer. Default: 1 second.
	Pause time.Duration
}

// Do calls a tool until the call is answered or no try is left. All tries have one key. The type
// and the status of an error decide whether Do tries again, never its text: see [IsRetryable].
//
// try makes the call once, with the context that it gets. That context carries the key, and try
// must send it: Transport, PutMeta and a ClientKey do, and KeyFrom returns it for other clients. If
// the key is not sent, every try is a new call to the tool. try runs on the caller's goroutine and
// must not retry. It may set a time limit: Do tries again after it.
//
// An error that another try cannot repair is returned unchanged. Do returns a *[GaveUpError], which
// wraps the last error, if it gives up, or if a try may have taken effect. A Call that contradicts
// itself is a *[dedup.InvalidError], and nothing was tried.
//
// If ctx ends, Do starts no further try and ends a pause at once. It waits for a try that is
// running, whose context has ended too.
//
// A deadline of ctx shortens the pauses. The random part of a pause, which follows the server's
// Retry-After, takes at most half of the time between Retry-After and the deadline: the other half
// is left for the try. Do gives up before the deadline only if Retry-After reaches beyond it.
// Without a deadline Do gives up if Retry-After exceeds an hour. The *[StatusError] in the
// *[GaveUpError] has the RetryAfter.
func Do[R any](ctx context.Context, call Call, try func(ctx context.Context) (R, error)) (R, error) {
	var none R
	if err := call.check(); err != nil {
		return none, err
	}
	ctx, err := withCallKey(ctx, &call)
	if err != nil {
		return none, err
	}
	if call.Tries == 0 && repeats(call.Class) {
		call.Tries = 3
	}
	call.Pause = cmp.Or(call.Pause, time.Second)
	c := state{Call: call, open: call.Resumed && call.Class != tool.ReadOnly}
	if ctx.Err() != nil {
		return none, c.gaveUp(contextError(ctx), nil)
	}
	for {
		c.tries++
		value, err := try(ctx)
		if err == nil {
			return value, nil
		}
		if err := c.awaitNext(ctx, err); err != nil {
			return none, err
		}
	}
}

// check refuses a Call that contradicts itself.
func (c *Call) check() error {
	switch {
	case c.Tool == "":
		return missing("Tool", "is empty; give the tool's stable name")
	case c.Resumed && c.Key == "":
		return missing("Key", "is empty, and the call is Resumed; give the key that was tried before, from the checkpoint")
	case c.Tries < 0 || c.Tries > 1 && !repeats(c.Class):
		return invalid("Tries", fmt.Sprintf("is %d for a tool of class %q", c.Tries, c.Class))
	case c.Pause < 0:
		return invalid("Pause", "is negative; leave it at 0 for the default")
	}
	return nil
}

// repeats reports whether a call of a class may be made again, with a key if the class needs one.
func repeats(class tool.Class) bool {
	return class == tool.ReadOnly || class == tool.Idempotent || class.NeedsKey()
}

func invalid(field, reason string) *dedup.InvalidError {
	return &dedup.InvalidError{What: "call", Field: field, Reason: reason}
}

func missing(field, reason string) *dedup.InvalidError {
	err := invalid(field, reason)
	err.Missing = true
	return err
}

// tries is the state of one Do.
type state struct {
	Call
	tries int
	// open reports that a try may have taken effect although it failed.
	open bool
}

var (
	errTriesUsedUp = errors.New("no try is left")
	errWaitTooLong = errors.New("the server's Retry-After outlasts the deadline")
	errWaitEndless = errors.New("the server's Retry-After exceeds an hour, and the context has no deadline")
)

// maxRetryAfter is the longest Retry-After that a Do without a deadline waits for.
const maxRetryAfter = time.Hour

// awaitNext pauses before the next try. err is the last try's error. Without a next try it returns
// the error that Do returns.
func (c *state) awaitNext(ctx context.Context, err error) error {
	c.open = c.open || c.Class != tool.ReadOnly && leavesOpen(err)
	switch {
	case !IsRetryable(err):
		if !c.open || settles(err) {
			return err
		}
		return c.gaveUp(nil, err)
	case ctx.Err() != nil:
		return c.gaveUp(contextError(ctx), err)
	case c.tries >= c.Tries:
		return c.gaveUp(errTriesUsedUp, err)
	}
	var status *StatusError
	after, left := time.Duration(0), time.Duration(math.MaxInt64)
	if errors.As(err, &status) {
		after = status.RetryAfter
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left = time.Until(deadline); after >= left {
			return c.gaveUp(fmt.Errorf("%w: %s, and %s are left", errWaitTooLong, after, max(left, 0)), err)
		}
	} else if after > maxRetryAfter {
		return c.gaveUp(errWaitEndless, err)
	}
	select {
	case <-time.After(pause(c.bound(), after, left, rand.Int64N)):
		return nil
	case <-ctx.Done():
		return c.gaveUp(contextError(ctx), err)
	}
}

// bound returns the maximum of the random part of the next pause.
func (c *state) bound() time.Duration {
	bound, most := c.Pause, max(c.Pause, time.Minute)
	for range c.tries - 1 {
		if bound > most/2 {
			return most
		}
		bound *= 2
	}
	return bound
}

// pause draws a pause. left is the time to the deadline. The pause is retryAfter and a random part
// of at most bound: an overloaded server sends the same Retry-After to every caller. The random
// part leaves at least half of the time between retryAfter and the deadline. retryAfter must not
// exceed left.
func pause(bound, retryAfter, left time.Duration, rand func(int64) int64) time.Duration {
	retryAfter = max(retryAfter, 0)
	return retryAfter + time.Duration(rand(int64(min(bound, (left-retryAfter)/2))+1))
}

func (c *state) gaveUp(why, err error) error {
	return &GaveUpError{Tool: c.Tool, Key: c.Key, Tries: c.tries, OutcomeUnknown: c.open, Why: why, Err: err, repeats: repeats(c.Class)}
}

// contextError returns the error of a context that ended, and its cause if that differs.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
