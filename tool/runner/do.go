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

// Call is one call of a tool: one intent, however many tries it takes.
type Call struct {
	// Tool is the tool's stable name. Required.
	Tool string
	// Class is the tool's, and says whether it may be tried again. A tool that takes no key, and is
	// neither ReadOnly nor Idempotent, is left Unclassified: it is tried once.
	Class tool.Class

	// Key names the intent. Where it may outlive this process, it comes from a
	// [Plan] or another checkpoint. Empty: the one that the context carries, if it
	// is not another tool's; else Do mints one for classes that need it, which is
	// lost with the process. A ReadOnly tool has only the one given here.
	Key string
	// Resumed says that the key may have been tried before this Do, by a process
	// that has ended: then the outcome counts as unknown until there is an answer.
	Resumed bool

	// Tries is the most tries, the first included. Default 3. An Unclassified tool has one.
	Tries int
	// Pause is the longest that the first pause may be; each further one may be twice as
	// long, up to a minute, or Pause where that is more. Default 1 second.
	Pause time.Duration
}

// Do calls a tool until there is an answer or no try is left, with one key
// for all tries. It says what may be tried again by the type and status of an
// error, never by its text: see [IsRetryable].
//
// The try makes the call once, with the context that it is handed, which carries
// the key, and it must send that key: Transport and PutMeta do, and KeyFrom is
// there for other ways: without it every further try is a call of its own. The try runs on the
// caller's goroutine and does not retry by itself. It may set a limit of its own: one that runs out
// is worth another try.
//
// Do returns an error that another try cannot repair as it is. Where it gives up,
// and where an earlier try may have taken effect all the same, it returns a
// *[GaveUpError], which says so and wraps the last error. A call that cannot be
// made as it is, is a *[dedup.InvalidError], and nothing was tried.
//
// When ctx ends, no further try is begun and a pause ends at once. The try that is
// under way is waited for; it sees the end in its own context. Where ctx has a
// deadline, what a pause adds to a server's Retry-After takes at most half of the
// time that is left behind it, so that the other half is the next try's. Do gives up
// before the deadline only where Retry-After does not end before it.
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
	c := calling{Call: call, open: call.Resumed && call.Class != tool.ReadOnly}
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

// check refuses calls that contradict themselves.
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

// repeats reports whether calls of a class, with the keys that they need, may be made again.
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

// calling is one Do on its way through its tries.
type calling struct {
	Call
	tries int
	// open says that a try may have taken effect although it failed.
	open bool
}

var (
	errTriesUsedUp = errors.New("no try is left")
	errWaitTooLong = errors.New("the server's Retry-After outlasts the deadline")
)

// awaitNext pauses before the try that follows one that failed with err, or
// returns what the call ends with.
func (c *calling) awaitNext(ctx context.Context, err error) error {
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
	}
	select {
	case <-time.After(pause(c.bound(), after, left, rand.Int64N)):
		return nil
	case <-ctx.Done():
		return c.gaveUp(contextError(ctx), err)
	}
}

// bound is the longest that is drawn after the tries so far.
func (c *calling) bound() time.Duration {
	bound, most := c.Pause, max(c.Pause, time.Minute)
	for range c.tries - 1 {
		if bound > most/2 {
			return most
		}
		bound *= 2
	}
	return bound
}

// pause draws a pause, with left the time to the deadline. Retry-After is a lower bound, and an
// even draw up to the bound comes on top of it: a server that is overloaded asks the same of
// everybody. The draw leaves the next try at least half of the time that is left behind
// Retry-After, which must not be more than left.
func pause(bound, retryAfter, left time.Duration, rand func(int64) int64) time.Duration {
	retryAfter = max(retryAfter, 0)
	return retryAfter + time.Duration(rand(int64(min(bound, (left-retryAfter)/2))+1))
}

func (c *calling) gaveUp(why, err error) error {
	return &GaveUpError{Tool: c.Tool, Key: c.Key, Tries: c.tries, OutcomeUnknown: c.open, Why: why, Err: err, repeats: repeats(c.Class)}
}

// contextError is why ctx ended: its error, and its cause where that says more.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
