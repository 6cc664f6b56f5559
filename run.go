package dedup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// kind is the outcome of an attempt. docs/design.md has them as a table.
type kind int

const (
	done    kind = iota // effect and record are committed
	found               // nothing was committed; a record is the answer
	busy                // nothing was committed; a twin, or somebody else who holds the row, is waited for
	again               // nothing was committed, and another attempt may go through
	unknown             // the answer to COMMIT was lost, or cannot be trusted
	failed              // nothing was committed, unless the effect has ended its transaction; explain may still change it
)

// verdict is the outcome of an attempt, and why.
type verdict struct {
	kind kind
	err  error
	// pause asks run to pause before the next attempt, within Options.Retry. An unknown outcome
	// always pauses, and DoTx never does.
	pause bool
	// conflict is true when the record's or the claim's statement met a row that no look finds.
	conflict bool
	// outage is true when the transaction could not be opened because of the state that the
	// server is in: any other call would have met the same.
	outage bool
}

// stage is how far an attempt was.
type stage int

const (
	atOpen stage = iota // before the effect, or between the effect and its record because the context ended
	atEffect
	atRecord
	atCommit
)

// fail is the verdict on an attempt that err answers.
func fail(err error) verdict { return verdict{kind: failed, err: err} }

// retry is the verdict on an attempt that met a passing fault.
func retry(err error) verdict { return verdict{kind: again, pause: true, err: err} }

// run makes attempts until a record answers the call, or an error that it returns. So these are
// retried:
//
//	busy      once the twin has ended
//	again     at once, where the next attempt does something else: another connection,
//	          a statement that does not ride, or the record of a refusal
//	          after a pause, where a fault may have passed by then
//	unknown   after a pause, to find out whether the lost COMMIT took place
//
// Options.Retry bounds the pauses. Which failures are retried is said in constraint.go: by
// unopened for those before the effect, and by explain and classify for all others.
func (c *call) run(ctx context.Context) error {
	if c.lookFirst && c.d.look(ctx, &c.Entry, &c.seen, (*table.Table).LookUp) == nil {
		c.lookedUp() // where the look fails, the attempt meets the same fault and says so
	}
	for faults := 0; c.rec == nil; {
		v := c.attempt(ctx)
		if c.last.free { // and so nothing was committed
			c.doubt = doubt{}
		}
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
			return c.exhaust(&exhaustion{attempts: c.attempts, err: err, outage: v.outage})
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
		c.found(&c.seen.Record)
		return false, nil
	case unknown:
		c.doubt.add(v.err, c.tried)
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
// is a record or a twin, and two where the effect is a statement that rides.
func (c *call) attempt(ctx context.Context) verdict {
	c.attempts++
	c.tried = time.Now()
	c.last = attempt{c: c}
	pooled, err := c.d.acquire(ctx)
	if err != nil {
		return c.unopened(ctx, err)
	}
	own := &ownTx{attempt: &c.last, pooled: pooled}
	defer func() { own.giveBack(ctx) }() // rolls back, after a panic too
	conn := pooled.Conn()
	if err := c.d.checkTable(ctx, conn); err != nil {
		wire.DropUnusable(ctx, conn, err)
		return c.unopened(ctx, err)
	}
	return c.attemptOn(ctx, conn, own)
}

// attemptOn makes an attempt in a transaction of its own. It may leave one open.
func (c *call) attemptOn(ctx context.Context, conn *pgx.Conn, own *ownTx) verdict {
	c.last = attempt{c: c, table: c.d.table(), on: wire.On(conn), conn: conn, limit: c.recordLimit()}
	return c.last.make(ctx, own)
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

// lookedUp takes over what a look-up before the attempts has seen.
func (c *call) lookedUp() {
	if c.seen.Found {
		c.found(&c.seen.Record)
	}
	c.walks = c.walks || c.seen.Forgotten
}

// ended returns the call's error: ErrOutcomeUnknown while a doubt is open, else err.
func (c *call) ended(err error) error {
	if c.doubt.err == nil {
		return err
	}
	if answer, ok := errors.AsType[*Error](err); ok && answer.Answer == ErrOutcomeUnknown {
		return err
	}
	if err != c.doubt.err {
		err = fmt.Errorf("%w (%w)", c.doubt.err, err)
	}
	return &Error{Answer: ErrOutcomeUnknown, Attempts: c.attempts, Err: err}
}

// exhaustion describes attempts that are used up: the call's own, or those of a call in its batch.
type exhaustion struct {
	attempts int
	err      error // the fault of the last attempt
	outage   bool
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
	delay := c.d.opts.Retry.pause(faults)
	if trace := c.d.opts.Tracer; trace != nil {
		trace.TraceEvent(ctx, RetriedData{CallData: c.span.about(), Attempt: c.attempts, Err: err, Unknown: c.doubt.err != nil, Delay: delay})
	}
	if ended := sleep(ctx, delay); ended != nil {
		return fmt.Errorf("dedup: before another attempt: %w: %w", ended, err)
	}
	return nil
}

// pause draws the pause after the nth fault: evenly from zero to the longest, so that callers that
// failed together do not come back together.
func (p RetryPolicy) pause(n int) time.Duration { return rand.N(p.longestPause(n) + 1) }

// longestPause is the bound of the pause after the nth fault.
func (p RetryPolicy) longestPause(n int) time.Duration {
	d := p.BaseDelay
	for range n - 1 {
		if d *= 2; d >= p.MaxDelay {
			return p.MaxDelay
		}
	}
	return d
}

// jitter draws evenly from the upper half of d, so that those who wait or sweep at intervals do
// not do so in step.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep pauses. It returns the error of a context that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// doubt is what is not known of a call since the answer to its COMMIT was lost. The next attempt
// finds out. If it meets a record, that is the answer. If the identity is free, it runs the effect
// again, with the doubt still open: the key of the table keeps the effect single. If that attempt
// fails as well, its error can be believed: it held the lock or the claim. DoTx has no doubt, because its
// caller sends the COMMIT. Whether an answer to COMMIT counts as lost is
// read by wire.OutcomeOfCommit: also where the connection broke over the record, where
// CommitTimeout ended the wait, and where an error may be that of a server behind.
type doubt struct {
	// err is the fault that hid the outcome; nil where there is no doubt.
	err error
	// sent is a time before the first such COMMIT was sent, by this machine's clock.
	sent time.Time
}

// add adds a COMMIT whose answer was lost.
func (d *doubt) add(err error, sent time.Time) {
	if d.err == nil {
		d.sent = sent
	}
	d.err = err
}

// provable reports whether finding no record still proves that an earlier commit of this
// call did not take place. Its record may be forgotten by now, and swept or not: to run again
// could then repeat the effect. Half of the time that the record is remembered is left for
// clocks that differ, this machine's from the server's and those of two servers in a
// failover.
func (d *doubt) provable(remembered time.Duration) bool {
	return time.Since(d.sent) < remembered/2
}

// errForgotten is why a call with a lost COMMIT makes no further attempt.
var errForgotten = errors.New("dedup: too late to find out: the record is remembered for a shorter time than that took; see Retention")
