package dedup

import (
	"context"
	"errors"
	"iter"
	"time"
)

// StatementCall is a call and its effect.
type StatementCall struct {
	Call      Call
	Statement Statement
}

// BatchOptions configure [DoBatch]. Nil and zero fields mean the defaults.
type BatchOptions struct {
	// Size is the number of calls that are taken from the iterator together, and of results that
	// are kept in memory. Default: 100, at most 1,000.
	Size int
	// Progress is called after every Size calls and at the end, on the goroutine that ranges over
	// the outcomes. Default: none.
	Progress func(BatchData)
}

// BatchOutcome is one call of a batch with its answer.
type BatchOutcome[R any] struct {
	// Index is the call's number in the iterator, from 0. It is -1 in the only outcome of a batch
	// that could not begin.
	Index int
	// Call is the call.
	Call Call
	// Result and Err are the answer that DoStatement would return.
	Result Result[R]
	Err    error
}

const (
	defaultBatchSize = 100
	maxBatchSize     = 1_000
)

// DoBatch is [DoStatement] for many calls: a bulk job, or all the tool calls of one turn. It takes
// Size calls at a time. It sends them, sorted by identity, in transactions of up to 256 calls, each
// in two round trips. Each call gets the answer that DoStatement would give it. A call that fails,
// that was made before, or that is in flight elsewhere is set apart, and the others proceed without
// it. For all or nothing call [DoTx] in a loop inside [Deduper.BeginFunc].
//
// The trip that runs the statements of a part also looks its calls up: the statement of a call that
// was made before does not run, unless it races with the first. If a call fails, the other calls of
// its transaction are rolled back with it and run again.
//
// If a call uses up Options.Retry because no transaction can be opened, the unfinished calls that
// were taken with it get its error, ErrAttemptsExhausted, without attempts.
//
// On servers other than plain PostgreSQL one round trip looks up the records of Size calls, and
// each call without a record runs in a separate transaction.
//
// DoBatch takes calls from the iterator, in its order, while the caller ranges over the outcomes;
// nothing runs before. If the caller leaves the loop early, up to Size calls may have run whose
// outcomes were not yielded; with the same keys they are replayed. If ctx ends, the calls taken so
// far get its error, and DoBatch takes no more. A key that occurs twice is one call and its replay.
//
// The iterator may reuse the yielded value. DoBatch copies Args, slices and slices of slices in it,
// and plain values, times and slices behind pointers in it. Data behind a map, a struct or another
// pointer must not change until the call's outcome, nor may data that OnError uses. DoBatch takes
// the fingerprint of Call.Args at once. The outcome's Call is the yielded value and not a copy.
//
// Settings of a statement for its transaction, such as set_config(…, true), also apply to the other
// statements of that transaction. So a statement must set every setting that it reads.
//
// Calls of one batch run in no defined order: put a call that depends on another into the next
// batch.
func DoBatch[R any](ctx context.Context, d *Deduper, calls iter.Seq[StatementCall], opts *BatchOptions) iter.Seq[BatchOutcome[R]] {
	return func(yield func(BatchOutcome[R]) bool) {
		o, err := opts.resolve()
		switch {
		case err != nil:
		case calls == nil:
			err = missing("calls", "must not be nil")
		default:
			err = d.usable(ctx)
		}
		if err != nil {
			yield(BatchOutcome[R]{Index: -1, Err: err})
			return
		}
		b := &batch[R]{parts: parts{ctx: ctx, d: d}, opts: o, yield: yield, began: time.Now()}
		defer b.end()
		for call := range calls {
			if !b.take(call) {
				return
			}
			if ctx.Err() != nil {
				break
			}
		}
		b.flush()
	}
}

func (o *BatchOptions) resolve() (BatchOptions, error) {
	var opts BatchOptions
	if o != nil {
		opts = *o
	}
	setDefault(&opts.Size, defaultBatchSize)
	if opts.Size < 1 || opts.Size > maxBatchSize {
		return opts, invalidOption("Size", "must be between 1 and %d", maxBatchSize)
	}
	return opts, nil
}

// batch is a running DoBatch.
type batch[R any] struct {
	parts
	opts     BatchOptions
	yield    func(BatchOutcome[R]) bool
	requests []Call
	calls    []*call // of requests; an invalid call has an err
	values   []*R
	taken    int
	tally    BatchData
	began    time.Time
}

// take takes one call from the iterator. It reports whether to continue.
func (b *batch[R]) take(from StatementCall) bool {
	ctx, c := startCall(b.ctx, b.d, "DoBatch", &from.Call)
	value := new(R)
	b.requests, b.calls, b.values = append(b.requests, from.Call), append(b.calls, c), append(b.values, value)
	if c.err = checkStatement(ctx, c, b.d, &from.Call, &from.Statement, value); c.err == nil {
		c.stmt.Args = keptArgs(c.stmt.Args)
	}
	if b.taken++; len(b.calls) < b.opts.Size && b.ctx.Err() == nil {
		return true
	}
	return b.flush()
}

// flush runs the calls taken so far and yields their outcomes.
func (b *batch[R]) flush() bool {
	if len(b.calls) == 0 {
		return true
	}
	b.run(b.calls)
	first := b.taken - len(b.calls)
	outcomes := make([]BatchOutcome[R], len(b.calls))
	for i, c := range b.calls {
		out := BatchOutcome[R]{Index: first + i, Call: b.requests[i]}
		out.Result, out.Err = answer(c, *b.values[i], c.err)
		out.Err = c.end(out.Err)
		b.tally.count(c, out.Err)
		outcomes[i] = out
	}
	b.requests, b.calls, b.values = b.requests[:0], b.calls[:0], b.values[:0]
	if b.opts.Progress != nil {
		b.tally.Duration = time.Since(b.began)
		b.opts.Progress(b.tally)
	}
	for _, out := range outcomes {
		if !b.yield(out) {
			return false
		}
	}
	return true
}

// end reports the batch, and ends the spans of calls that a panic left open.
func (b *batch[R]) end() {
	for _, c := range b.calls {
		c.span.abandon()
	}
	if trace := b.d.opts.Tracer; trace != nil && b.tally.Calls > 0 {
		b.tally.Func, b.tally.Attrs, b.tally.Duration = "DoBatch", AttrsOf(b.ctx), time.Since(b.began)
		trace.TraceEvent(b.ctx, b.tally)
	}
}

// count counts a call that has ended.
func (e *BatchData) count(c *call, err error) {
	if e.Calls == 0 {
		e.Scope, e.Tool = c.Scope, c.Tool
	}
	if e.Scope != c.Scope {
		e.Scope = ""
	}
	if e.Tool != c.Tool {
		e.Tool = ""
	}
	e.Calls++
	if err != nil {
		e.Failed++
	}
	switch {
	case c.executed:
		e.Executed++
	case c.rec != nil && (err == nil || errors.Is(err, ErrRefused)):
		e.Replayed++
	}
}
