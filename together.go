package dedup

import (
	"cmp"
	"context"
	"time"

	"github.com/tooldedup/dedup/internal/guard"
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
// 500; two where all of them were made before, or one if any has Call.LookFirst: then
// first calls among them take one more.
// The effects run sorted by identity, so a statement must not rely on another of
// the same DoTogether. For calls on their own that merely travel together there
// is [DoBatch].
//
// A *[BatchError] names the call because of which nothing was committed, with
// what DoStatement would have answered it: also the record of an earlier call
// that answers with an error. A refusal (see [Final]) is not recorded, because
// nothing is, and comes as the error that was wrapped. Errors of no call's own,
// such as the end of ctx or ErrOutcomeUnknown, come as they are. Three come
// after all has been committed, beside the results: a result that does not fit
// R, ErrBroken of a record that was swallowed, and ErrExpired of a record that was
// found after a lost answer to COMMIT, and whose result had expired by then.
//
// One twin in flight holds up all. It is waited for without a connection and
// without the locks of the others, for at most its own call's MaxWait. Transient
// faults and a lost answer to COMMIT are retried as in Do. Cancelling ctx stops
// waiting and retrying and cancels the statements; a COMMIT that has been sent is
// finished within Options.CommitTimeout all the same. Inside an effect the answer
// is an [ErrInvalid].
func DoTogether[R any](ctx context.Context, d *Deduper, calls []StatementCall) (results []Result[R], err error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	switch {
	case guard.Inside(ctx):
		return nil, errNested
	case len(calls) > maxTogether:
		return nil, invalid("calls", "are %d, and %d is the most; split them, or use DoBatch", len(calls), maxTogether)
	}
	if err := checkRow[R](); err != nil {
		return nil, err
	}
	t := &together{}
	defer t.abandon()
	for i, asked := range calls {
		ctx, s := d.startCall(ctx, "DoTogether", &asked.Call)
		t.calls = append(t.calls, s.member())
		if err := admitStatement[R](ctx, s, d, "DoTogether", asked.Call, asked.Statement); err != nil {
			s.span.end(&s.call, err)
			return nil, t.failed(batchError(i, asked.Call, err))
		}
	}
	began := time.Now()
	bad, err := t.run(ctx, d)
	if err != nil && bad == nil {
		return nil, t.failed(err)
	}
	var tally batchTally
	results = make([]Result[R], len(calls))
	var first error
	for i, c := range t.calls {
		if bad != nil && c != bad { // nothing became of it
			continue
		}
		var own error
		results[i], own = answerStatement[R](c, cmp.Or(err, c.err))
		c.span.end(c, errorOf(&calls[i].Call, own))
		tally.count(calls[i].Call, c, own)
		if own != nil && first == nil {
			first = batchError(i, calls[i].Call, own)
		}
	}
	if bad != nil {
		return nil, t.failed(first)
	}
	d.traceBatch(ctx, tally, time.Since(began))
	return results, first
}

func batchError(index int, call Call, err error) *BatchError {
	return &BatchError{Index: index, Scope: call.Scope, Tool: call.Tool, KeyHash: KeyHash(call.Key), Err: effectsOwn(err)}
}

// failed ends the spans of calls of which nothing is committed, because of err.
func (t *together) failed(err error) error {
	for _, c := range t.calls {
		c.span.end(c, err)
	}
	return err
}

// abandon ends the spans of calls that a panic has left.
func (t *together) abandon() { _ = t.failed(errPanicked) }

// run settles the calls, all or none. What it returns with bad is the error of that call,
// or nil where bad has a record that answers with one.
func (t *together) run(ctx context.Context, d *Deduper) (bad *call, err error) {
	once, twins := split(t.calls)
	if len(once) == 0 {
		return nil, nil
	}
	g := &group{d: d, calls: once, together: t}
	if bad, err = g.run(ctx); bad != nil || err != nil {
		return bad, err
	}
	for _, c := range twins {
		c.follow()
	}
	return nil, nil
}
