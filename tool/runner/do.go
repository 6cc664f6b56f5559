package runner

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// Do calls a tool until there is an answer or its policy gives up, with one key
// for all tries. It says what may be tried again by the type and status of an
// error, never by its text: see [IsRetryable].
//
// The try makes the call once, with the context that it is handed, which carries
// the key, and it must send that key: Transport and PutMeta do, and Try.Key is
// there for other ways. Do cannot see whether it was sent, and without it every
// further try is a call of its own. Where the tool takes no key, say so with
// Call.Unkeyed. The try runs on the caller's goroutine and does not retry by
// itself.
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
func Do[R any](ctx context.Context, r *Runner, call Call, try func(ctx context.Context, t Try) (R, error)) (Result[R], error) {
	if err := call.check(); err != nil {
		return Result[R]{}, err
	}
	ctx, key, err := withCallKey(ctx, call)
	if err != nil {
		return Result[R]{}, err
	}
	policy, err := call.policy(key)
	if err != nil {
		return Result[R]{}, err
	}
	c := calling[R]{runner: r.withDefaults(), call: call, try: try, key: key, policy: policy}
	c.open = call.Resumed && call.Class != tool.ReadOnly
	return c.run(ctx)
}

// calling is one Do on its way through its tries. It belongs to one goroutine.
type calling[R any] struct {
	runner Runner
	call   Call
	try    func(ctx context.Context, t Try) (R, error)
	key    string
	policy Policy

	tries  int
	pauses []time.Duration
	// open says that a try may have taken effect although it failed.
	open bool
}

// run tries until there is an answer, or until another try would not help.
func (c *calling[R]) run(ctx context.Context) (Result[R], error) {
	if ctx.Err() != nil {
		return Result[R]{}, c.gaveUp(contextError(ctx), nil)
	}
	for {
		c.tries++
		value, err := c.once(ctx)
		if err == nil {
			return Result[R]{Value: value, Key: c.key, Tries: c.tries}, nil
		}
		c.open = c.open || c.call.Class != tool.ReadOnly && leavesOpen(err)
		if err := c.awaitNext(ctx, err); err != nil {
			return Result[R]{}, err
		}
	}
}

func (c *calling[R]) once(ctx context.Context) (R, error) {
	if c.policy.TryTimeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, c.policy.TryTimeout)
		defer cancel()
		ctx = bounded
	}
	return c.try(ctx, Try{Number: c.tries, Key: c.key})
}

// awaitNext pauses before the try that follows one that failed with err, or
// returns what the call ends with.
func (c *calling[R]) awaitNext(ctx context.Context, err error) error {
	switch {
	case !IsRetryable(err):
		return c.answered(err)
	case ctx.Err() != nil:
		return c.gaveUp(contextError(ctx), err)
	case c.tries >= c.policy.Tries:
		return c.gaveUp(ErrTriesUsedUp, err)
	}
	after, left := retryAfter(err), time.Duration(math.MaxInt64)
	if deadline, ok := ctx.Deadline(); ok {
		if left = deadline.Sub(c.runner.Clock.Now()); after >= left {
			return c.gaveUp(fmt.Errorf("%w: %s, and %s are left", ErrWaitTooLong, after, max(left, 0)), err)
		}
	}
	pause := c.policy.pause(c.tries, after, left, c.runner.Rand)
	c.runner.OnRetry(ctx, Event{Tool: c.call.Tool, KeyHash: keyHash(c.key), Tries: c.tries, Pause: pause, Err: err})
	c.pauses = append(c.pauses, pause)
	select {
	case <-c.runner.Clock.After(pause):
		return nil
	case <-ctx.Done():
		return c.gaveUp(contextError(ctx), err)
	}
}

// answered is how a call ends whose last error another try cannot repair. It is
// the answer, unless it leaves open what an earlier try has done.
func (c *calling[R]) answered(err error) error {
	if !c.open || settles(err) {
		return err
	}
	return c.gaveUp(nil, err)
}

func (c *calling[R]) gaveUp(why, err error) error {
	repeatable := max(c.policy.Tries, policyFor(c.call.Class, c.key != "").Tries) > 1
	return &GaveUpError{
		Tool: c.call.Tool, Key: c.key, Tries: c.tries, Pauses: c.pauses,
		OutcomeUnknown: c.open, Why: why, Err: err,
		repeatable: repeatable, untrusted: c.key != "" && !repeatable,
	}
}

// contextError is why ctx ended: its error, and its cause where that says more.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// keyHash is what may be shown of a key.
func keyHash(key string) string {
	if key == "" {
		return ""
	}
	return dedup.KeyHash(key)
}
