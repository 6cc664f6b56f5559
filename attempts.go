package dedup

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup/internal/table"
)

// kind classifies an ending. docs/design.md has a table of the kinds.
type kind int

const (
	done    kind = iota // effect and record are committed
	found               // nothing was committed; a record is the answer
	busy                // nothing was committed; a twin, or another holder of the row, is in the way
	again               // nothing was committed; another attempt may succeed
	unknown             // the reply to COMMIT was lost, or cannot be trusted
	failed              // nothing was committed, unless the effect ended its transaction; resolveFailure may still change it
)

// ending is how an attempt ended: its kind, and the error that caused it.
type ending struct {
	kind kind
	err  error
	// pause is true if the next attempt waits, within Options.Retry. An unknown outcome always
	// waits; DoTx never does.
	pause bool
	// conflict is true if the statement of the record or the claim conflicted with a row that no
	// look-up finds.
	conflict bool
	// outage is true if a fault of the server kept the transaction from opening. Other calls meet
	// the same fault.
	outage bool
}

// fail returns the ending after which err answers the call.
func fail(err error) ending { return ending{kind: failed, err: err} }

// retry returns the ending after which another attempt, after a pause, may avoid err.
func retry(err error) ending { return ending{kind: again, pause: true, err: err} }

// makeAttempts makes attempts until a record or an error answers the call. It retries these:
//
//	busy      after the twin ended
//	again     at once if the next attempt differs: it takes another connection, sends the
//	          statement in a separate trip, or records a refusal;
//	          after a pause if a fault may have passed by then
//	unknown   after a pause, to look for the record of the lost COMMIT
//
// Options.Retry bounds the attempts that pause. retry.go says which failures are retried; classify
// and openFailed in failure.go use it. BeginFunc has its own loop, because its function has no
// identity.
func (c *call) makeAttempts(ctx context.Context) error {
	if c.lookFirst && c.d.look(ctx, &c.Entry, &c.seen, (*table.Table).LookUp) == nil {
		c.useLookUp() // if the look fails, the attempt meets the same fault and reports it
	}
	for faults := 0; c.rec == nil; {
		end := c.makeAttempt(ctx)
		if c.current.noneCommitted {
			c.lost = lostCommit{}
		}
		if end.kind == busy {
			end = c.wait(ctx, end)
		}
		next, err := c.next(ctx, end)
		switch next {
		case answerIt, failIt:
			return err
		case tryAtOnce:
			continue
		}
		if faults++; faults >= c.d.opts.Retry.MaxAttempts {
			return c.exhaust(&exhaustion{attempts: c.attempts, err: err, outage: end.outage})
		}
		if err := c.pause(ctx, faults, err); err != nil {
			return c.orUnknown(err)
		}
	}
	return nil
}

// step is what follows an ending.
type step int

const (
	answerIt       step = iota // a record is the call's answer
	failIt                     // an error is the call's answer
	tryAtOnce                  // another attempt follows
	tryAfterAPause             // another attempt follows within Options.Retry, because of an error
)

// next uses the ending's record or error, and returns the step that follows. docs/design.md has
// the rules as a table.
func (c *call) next(ctx context.Context, end ending) (step, error) {
	switch end.kind {
	case done:
		if err := c.useWritten(ctx); err != nil {
			return failIt, err
		}
		return answerIt, nil
	case found:
		c.useFound(&c.seen.Record)
		return answerIt, nil
	case unknown:
		c.lost.add(end.err, c.written)
		return tryAfterAPause, end.err
	case again:
		if end.pause {
			return tryAfterAPause, end.err
		}
		return tryAtOnce, nil
	default:
		return failIt, c.orUnknown(end.err)
	}
}

// useWritten makes the record that the attempt committed the call's answer.
func (c *call) useWritten(ctx context.Context) error {
	if c.written.CreatedAt.IsZero() {
		c.d.reexamine() // a trigger or rule swallowed the record: the next call examines the table again
		if c.written.Outcome == table.Broken {
			return table.ErrSwallowed
		}
		return c.recordBroken(ctx, table.ErrSwallowed, nil)
	}
	c.rec, c.ownRec, c.executed = &c.written, &c.written, true
	return nil
}

// useLookUp uses the result of a look-up outside an attempt.
func (c *call) useLookUp() {
	if c.seen.Found {
		c.useFound(&c.seen.Record)
	}
	c.separateTrip = c.separateTrip || c.seen.Forgotten
}

// exhaustion describes used-up attempts, either of the call or of another call in its batch.
type exhaustion struct {
	attempts int
	err      error // the fault of the last attempt
	outage   bool
}

func (c *call) exhaust(x *exhaustion) error {
	c.exhausted = x
	if c.lost.err != nil {
		return c.orUnknown(x.err)
	}
	return &Error{Kind: ErrAttemptsExhausted, Attempts: x.attempts, Err: x.err}
}

// pause waits before the next attempt, at most until the context ends.
func (c *call) pause(ctx context.Context, faults int, err error) error {
	delay := c.d.opts.Retry.pause(faults)
	if trace := c.d.opts.Tracer; trace != nil {
		trace.TraceEvent(ctx, RetriedData{CallData: c.span.about(), Attempt: c.attempts, Err: err, Unknown: c.lost.err != nil, Delay: delay})
	}
	if ended := sleep(ctx, delay); ended != nil {
		return fmt.Errorf("dedup: before another attempt: %w: %w", ended, err)
	}
	return nil
}
