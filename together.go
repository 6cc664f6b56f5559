package dedup

import (
	"context"
	"slices"
	"time"
)

// maxTogether bounds the calls of one DoTogether: their records and results are
// in memory, and one transaction holds all they write.
const maxTogether = 10_000

// DoTogether is DoStatement for many calls of which all are committed or none
// is: their effects and records share one transaction. Calls that were made
// before are not run again and count as done: their result is the replay. An
// identity that comes twice is one call and a replay of it. The results have the
// order of the calls, of which there may be 10,000.
//
// It takes three round trips for up to 500 calls, and two more for each further
// 500; two where all of them were made before, or one if any has Call.LookFirst or
// was met by d before: then first calls among them take one more.
// The effects run sorted by identity, so a statement must not rely on another of
// the same DoTogether. For calls on their own that merely travel together there
// is [DoBatch].
//
// A *[BatchError] names the call because of which nothing was committed, with
// what DoStatement would have answered it: also the record of an earlier call
// that answers with an error. A refusal (see [Final]) is not recorded, because
// nothing is, and comes as the error that was wrapped. Errors of no call's own,
// such as the end of ctx or ErrOutcomeUnknown, come as they are. Two are told
// after all has been committed, beside the results: a result that does not fit
// R, and ErrBroken of a record that was swallowed.
//
// One twin in flight holds up all. It is waited for without a connection and
// without the locks of the others, for at most its own call's MaxWait. Transient
// faults and a lost answer to COMMIT are retried as in Do. Cancelling ctx stops
// waiting and retrying and cancels the statements; a COMMIT that has been sent is
// finished within Options.CommitTimeout all the same. Inside an effect the answer
// is ErrNested.
func DoTogether[R any](ctx context.Context, d *Deduper, calls []StatementCall) ([]Result[R], error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	switch {
	case insideEffect(ctx):
		return nil, ErrNested
	case len(calls) > maxTogether:
		return nil, invalid("calls", "are %d, and %d is the most; split them, or use DoBatch", len(calls), maxTogether)
	}
	if err := checkRow[R](); err != nil {
		return nil, err
	}
	var t together
	for i, call := range calls {
		c, err := admitStatement[R](ctx, d, call.Call, call.Statement)
		if err != nil {
			return nil, batchError(i, call.Call, err)
		}
		t.add(c, nil)
	}
	bad, err := t.run(ctx, d)
	if err != nil && bad == nil {
		return nil, err
	}
	results := make([]Result[R], len(calls))
	var first error
	for i, e := range t.entries {
		if bad != nil && e != bad { // nothing became of it
			continue
		}
		var own error
		results[i], own = answerStatement[R](ctx, d, e.c.req, e.s, orElse(err, e.err))
		if own != nil && first == nil {
			first = batchError(i, calls[i].Call, own)
		}
	}
	if bad != nil {
		return nil, first
	}
	return results, first
}

func batchError(index int, call Call, err error) *BatchError {
	return &BatchError{Index: index, Scope: call.Scope, Tool: call.Tool, KeyHash: KeyHash(call.Key), Err: err}
}

// together is one DoTogether on its way through attempts.
type together struct {
	renewed int32 // see doCall
	chunk
	d *Deduper
	// sorted are all but the twins in the slice, which follow their first.
	sorted, twins []*entry
	// unknown is the fault that hid the outcome of an earlier COMMIT, nil when
	// there was none or when it is known by now.
	unknown  error
	attempts int
	// narrow tells to send statements one by one, to find out whose fault one is.
	narrow bool
}

// run makes attempts until one commits. What it returns with bad is the error of
// that call, or nil where bad has a record that answers with one.
func (t *together) run(ctx context.Context, d *Deduper) (bad *entry, err error) {
	t.d = d
	t.sorted, t.twins = t.split()
	if slices.ContainsFunc(t.sorted, (*entry).looksFirst) {
		t.lookUp(ctx, d, t.sorted)
	}
	for faults := 0; ; {
		next, bad, err := t.step(ctx)
		switch next {
		case stepSettled:
			for _, e := range t.twins {
				e.follow()
			}
			return nil, nil
		case stepFailed:
			return t.ended(ctx, bad, err)
		case stepAgain:
			continue
		}
		if faults++; faults >= d.opts.Retry.MaxAttempts {
			if t.unknown == nil {
				err = &AttemptsError{Attempts: t.attempts, Err: err}
			}
			return t.ended(ctx, bad, err)
		}
		if err := t.pause(ctx, bad, faults, err); err != nil {
			return t.ended(ctx, bad, err)
		}
	}
}

// ended says whose the error is that ended the attempts. Of a lost COMMIT it
// tells first that its outcome is still open.
func (t *together) ended(ctx context.Context, bad *entry, err error) (*entry, error) {
	switch {
	case err == nil: // a record is the answer
		return bad, nil
	case t.unknown != nil:
		return nil, outcomeUnknown(t.attempts, t.unknown, err)
	case ctx.Err() != nil:
		return nil, err
	default:
		return bad, err
	}
}

// pause is doCall.pause. It is told of the call that made it necessary.
func (t *together) pause(ctx context.Context, bad *entry, faults int, err error) error {
	if bad == nil {
		bad = t.sorted[0]
	}
	return bad.c.pause(ctx, faults, err)
}

// step makes one attempt and says what comes next.
func (t *together) step(ctx context.Context) (step, *entry, error) {
	if bad := t.misjudged(time.Time{}); bad != nil {
		return stepFailed, bad, nil
	}
	rest := unsettled(t.sorted)
	if len(rest) == 0 {
		return stepSettled, nil, nil
	}
	start := time.Now()
	t.count(rest, 1)
	a := t.attempt(ctx, rest)
	if a.state == attemptUndecided {
		a = t.resolve(ctx, a)
	}
	if a.alone {
		t.know()
	}
	switch a.state {
	case attemptExecuted:
		for i, e := range a.ran {
			e.execute(ctx, a.records[i], time.Since(start))
		}
		return stepSettled, nil, nil
	case attemptFound:
		if a.bad != nil {
			a.bad.find(a.rec)
		}
		return stepAgain, nil, nil
	case attemptAgain:
		return stepAgain, nil, nil
	case attemptBusy:
		t.count(rest, -1) // it came to nothing but a look
		return t.wait(ctx, a.bad)
	case attemptConflict:
		c := a.bad.c
		t.d.traceConflict(ctx, c.req, a.err, false)
		if c.conflicts++; c.conflicts > maxConflicts || c.conflicts >= t.d.opts.Retry.MaxAttempts {
			return stepFailed, a.bad, conflictError(c.req, a.err)
		}
	case attemptBroken:
		return stepFailed, a.bad, t.d.recordBroken(ctx, a.bad.c.req, a.err, nil)
	case attemptUnknown:
		t.lose(a.err, start)
	case attemptFailed, attemptRefusal:
		return stepFailed, a.bad, a.err
	}
	return stepFault, a.bad, a.err
}

func (t *together) count(entries []*entry, n int) {
	t.attempts += n
	for _, e := range entries {
		e.c.s.attempts += n
	}
}

// misjudged returns the first call that has a record which answers with an
// error. A twin in the slice is judged by what its first is going to write, as
// if that had been at started.
func (t *together) misjudged(started time.Time) *entry {
	for _, e := range t.entries {
		of := e
		if e.first != nil {
			of = e.first
		}
		rec := of.s.rec
		if !of.settled() {
			rec = newRecord(of.c.req)
			rec.bear(started, of.c.req)
		}
		if rec.judge(e.c.req) != nil {
			e.find(rec)
			return e
		}
	}
	return nil
}

// wait waits until no twin of e is in flight.
func (t *together) wait(ctx context.Context, e *entry) (step, *entry, error) {
	// A claim can only be seen by claiming, and here that is cheaper than to run
	// all the effects in vain.
	next, err := e.c.wait(ctx, t.d.order.probe)
	if next == stepSettled {
		e.s = e.c.given()
		next = stepAgain
	}
	return next, e, err
}

// lose notes that the answer to a COMMIT was lost, which was not sent before sent.
// What is found from then on is Recovered.
func (t *together) lose(err error, sent time.Time) {
	t.unknown = err
	for _, e := range t.sorted {
		e.c.lose(err, sent)
	}
}

// know notes that a COMMIT whose answer was lost has come to nothing.
func (t *together) know() {
	t.unknown = nil
	for _, e := range t.sorted {
		e.c.unknown = nil
	}
}
