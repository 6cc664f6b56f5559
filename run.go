package dedup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// The way of a call, top down:
//
//	do        one leader per identity and process; the others wait for it (wait.go)
//	run       the loop: attempts, pauses between them, waits for twins (here)
//	attempt   one transaction (tx.go), or one statement that is one (combined.go)
//	explain   what a failed attempt means, and so what is retried: reads the winning row (constraint.go)
//	next      whether another attempt is made (here)

// call is a Call on its way: what was asked, how it went so far, and its answer. One
// goroutine at a time has it.
type call struct {
	asked
	answered
	span span // what is counted of the call, and what tracers see of it

	tx      attempt      // the attempt at hand
	tried   time.Time    // when it began
	seen    table.Seen   // what it has seen of the identity
	written table.Record // the record that it sent, which counts once it is committed

	flight   flight // what its followers see of it
	waits    waits
	doubt    doubt
	attempts int
	// exhausted is not nil when the attempts are used up.
	exhausted *exhaustion

	// outcome is what the next attempt records: Done for what the effect returns, or Refused
	// or Broken, and then it runs no effect and records text.
	outcome table.Outcome
	text    string
	// separate is true when effect and record are to be sent separately: they were sent as
	// one statement that did not commit, or a record that may be forgotten is in their way.
	separate bool
	// conflicts counts unique violations without a record.
	conflicts int
	// looks counts how often a call that may not wait has looked again.
	looks int
	// renewed counts the connections that were given up in a row because their prepared
	// statements were gone. At the size of the pool, a pooler loses them, and the call gives up.
	renewed int32
	// reprepared is true when its statement has failed once, perhaps because it was prepared
	// for types that have changed since.
	reprepared bool
	// endedTx is true when the effect ended its transaction and then panicked.
	endedTx bool
}

// startCall makes a call and begins its span. The context that it returns is the call's.
func startCall(ctx context.Context, d *Deduper, function string, asked *Call) (context.Context, *call) {
	c := &call{}
	return c.start(ctx, d, function, asked), c
}

// start begins the call's span, and returns the call's context.
func (c *call) start(ctx context.Context, d *Deduper, function string, asked *Call) context.Context {
	c.function, c.outcome = function, table.Done
	if ctx == nil || d == nil || d.pool == nil {
		return ctx
	}
	data := CallData{Func: function, Scope: asked.Scope, Tool: asked.Tool, Key: asked.Key, Attrs: AttrsOf(ctx)}
	return c.span.start(ctx, &d.trace, &d.stats, data)
}

// kind is the outcome of an attempt. docs/design.md has them as a table.
type kind int

const (
	done    kind = iota // effect and record are committed
	found               // nothing was committed; a record is the answer
	busy                // nothing was committed; a twin, or somebody else who holds the row, is waited for
	again               // nothing was committed, and another attempt may go through
	unknown             // the answer to COMMIT was lost
	failed              // nothing was committed, unless the effect has ended its transaction; err is the answer once it is explained
)

// verdict is the outcome of an attempt, and why.
type verdict struct {
	kind kind
	err  error
	// pause is true when the next attempt comes after a pause, within Options.Retry.
	pause bool
	// met is how far a busy attempt was when it met the twin.
	met stage
	// conflict is true when the record's or the claim's statement met a row that no look finds.
	conflict bool
	// outage is true when the transaction could not be opened because of the state that the
	// server is in: any other call would have met the same.
	outage bool
	// until is the time after which a free identity proves that this attempt, whose COMMIT was
	// lost, has committed nothing.
	until time.Time
}

// stage is how far an attempt was.
type stage int

const (
	atOpen stage = iota // nothing was run
	atEffect
	atRecord
	atCommit
	atStatement // effect and record, in one statement
)

// run makes attempts until there is an answer, within Options.Retry: a record, or the error
// that it returns.
func (c *call) run(ctx context.Context) error {
	if c.lookFirst {
		c.lookUp(ctx)
	}
	defer func() {
		if c.endedTx { // a panic is on its way, and its connection has been given back
			_ = c.recordBroken(ctx, errTxEnded, nil) // its error is dropped: the panic wins
		}
	}()
	for faults := 0; c.rec == nil; {
		v := c.attempt(ctx)
		if v.kind == failed && c.tx.failedAt != atOpen {
			v = c.explain(ctx, v.err)
		}
		c.doubt.resolvedBy(c.tx.free, c.tx.started)
		if v.kind == busy {
			v = c.wait(ctx, v)
		}
		goOn, err := c.next(ctx, v)
		switch {
		case !goOn:
			return err
		case err == nil:
			continue
		}
		if faults++; faults >= c.d.opts.Retry.MaxAttempts {
			return c.exhaust(&exhaustion{attempts: c.attempts, err: err, tried: c.tried, outage: v.outage})
		}
		if err := c.pause(ctx, faults, err); err != nil {
			return c.ended(err)
		}
	}
	return nil
}

// next says whether another attempt is to be made: at once where err is nil, else after a pause
// because of err. If not, the call has ended, with an error or with a record. docs/design.md has
// it as a table.
func (c *call) next(ctx context.Context, v verdict) (goOn bool, err error) {
	switch v.kind {
	case done:
		return false, c.settle(ctx)
	case found:
		c.found(&c.seen.Record, c.began, c.doubt.err != nil)
		return false, nil
	case unknown:
		// The next attempt finds out: a record is the answer, and a lock that is free proves that
		// the old transaction has ended without one (doubt.go).
		c.doubt.add(v.err, c.tried, v.until)
		return true, v.err
	case again:
		if v.pause {
			return true, v.err
		}
		return true, nil
	default:
		return false, c.ended(v.err)
	}
}

// attempt makes one transaction: three round trips when the identity is free, two when there
// is a record or a twin, and one where effect and record are one statement.
func (c *call) attempt(ctx context.Context) verdict {
	c.attempts++
	c.tried = time.Now()
	c.tx = attempt{c: c}
	pooled, err := c.d.acquire(ctx)
	if err != nil {
		return c.unopened(ctx, err)
	}
	defer c.d.release(ctx, pooled) // rolls back, after a panic too
	conn := pooled.Conn()
	if err := c.d.checkTable(ctx, conn); err != nil {
		wire.DropUnusable(ctx, conn, err)
		return c.unopened(ctx, err)
	}
	if c.combines() && c.doubt.err == nil && c.d.canCombine(conn) {
		return c.attemptCombined(ctx, conn)
	}
	return c.attemptOn(ctx, conn)
}

// settle answers the call with the record that it has just committed.
func (c *call) settle(ctx context.Context) error {
	if c.written.CreatedAt.IsZero() {
		c.d.reexamine() // something swallowed the record: the next call examines the table again
		if c.outcome == table.Broken {
			return table.ErrSwallowed
		}
		return c.recordBroken(ctx, table.ErrSwallowed, nil)
	}
	c.rec, c.executed = &c.written, true
	return nil
}

// lookUp looks the record up before the first attempt, in one round trip. Where it fails,
// whatever comes next meets the same fault and says so.
func (c *call) lookUp(ctx context.Context) {
	if c.d.look(ctx, &c.Entry, &c.seen, (*table.Table).LookUp) == nil {
		c.lookedUp()
	}
}

// lookedUp takes over what a look-up has seen.
func (c *call) lookedUp() {
	if c.seen.Found {
		c.found(&c.seen.Record, c.began, c.doubt.err != nil)
	}
	c.separate = c.separate || c.seen.Forgotten // one statement would meet the old row; a separate attempt deletes it first
}

// ended is the error of a call whose attempts err has ended. While a doubt is open, that is
// ErrOutcomeUnknown.
func (c *call) ended(err error) error {
	if c.doubt.err == nil {
		return err
	}
	if own, ok := errors.AsType[*Error](err); ok && own.Answer == ErrOutcomeUnknown {
		return err
	}
	return c.doubt.unknown(c.attempts, err)
}

// exhaustion is how attempts were used up: the call's, or those of a call that it shares
// them with.
type exhaustion struct {
	attempts int
	// err is the fault of the last attempt, tried when that began.
	err    error
	tried  time.Time
	outage bool
}

func (c *call) exhaust(x *exhaustion) error {
	c.exhausted = x
	if c.doubt.err != nil {
		return c.ended(x.err)
	}
	return &Error{Answer: ErrAttemptsExhausted, Attempts: x.attempts, Err: x.err}
}

// pause waits before the next attempt: full jitter, within the context.
func (c *call) pause(ctx context.Context, faults int, err error) error {
	delay := fullJitter(c.d.opts.Retry.longestPause(faults))
	c.traceRetried(ctx, delay, err)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("dedup: before another attempt: %w: %w", contextError(ctx), err)
	}
}

func (c *call) traceRetried(ctx context.Context, delay time.Duration, err error) {
	for _, t := range c.d.trace.retried {
		t.TraceRetried(ctx, RetriedData{CallData: callData(ctx, c.function, c.Identity), Attempt: c.attempts, Err: err, Unknown: c.doubt.err != nil, Delay: delay})
	}
}

// longestPause is the one after the nth fault.
func (p RetryPolicy) longestPause(n int) time.Duration {
	d := p.BaseDelay
	for range n - 1 {
		if d *= 2; d >= p.MaxDelay {
			return p.MaxDelay
		}
	}
	return d
}

// fullJitter draws evenly from zero to d, so that callers that failed together do not come
// back together.
func fullJitter(d time.Duration) time.Duration { return rand.N(d + 1) }
