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

// BatchOptions configure [DoBatch]. Nil and zero mean the defaults.
type BatchOptions struct {
	// Size is how many calls are taken from the iterator and sent together, and
	// so how many results are kept in memory. Default 100, at most 1,000. One
	// commit holds up to 256 of them.
	Size int
	// Progress is called after every Size calls and at the end, on the goroutine
	// that ranges over the outcomes. Default none.
	Progress func(BatchData)
}

// BatchOutcome is the answer of one call of a batch.
type BatchOutcome[R any] struct {
	// Index is the call's number in the iterator, from 0. It is -1 in the only
	// outcome of a batch that could not begin.
	Index int
	// Call is the call.
	Call Call
	// Result and Err are what DoStatement would have answered.
	Result Result[R]
	Err    error
}

const (
	defaultBatchSize = 100
	maxBatchSize     = 1_000
)

// DoBatch is DoStatement for many calls: a bulk job, or all the tool calls of one
// turn. Size calls at a time share two round trips and one commit, in which they
// are sorted by identity. Each is on its own for all that: a call that fails, was
// made before or is in flight elsewhere is set apart, the others go without it,
// and every one gets the answer that DoStatement would give it. For all or nothing call
// [DoTx] in a loop inside [Deduper.BeginFunc].
//
// The trip that runs a part's statements looks its calls up: the statement of a call that was made
// before does not run, unless it races with the first. If a call fails, others that shared its
// transaction are rolled back with it, and run again.
//
// When a call has used up Options.Retry without a transaction that could be opened,
// those taken with it that are still to run get its error, ErrAttemptsExhausted, without attempts.
//
// On servers other than plain PostgreSQL the records of Size calls are looked up in one round trip, and each call
// without one is a transaction of its own.
//
// Calls are taken from the iterator as outcomes are ranged over, in its order,
// and nothing runs before. After a loop that is left early up to Size calls may
// have run whose outcomes were not yielded; with the same keys they are
// replays. When ctx ends, the calls taken so far get its error, and no more are
// taken. A key that comes twice is one call and a replay of it.
//
// The iterator may reuse the value that it has yielded. Of a
// statement's arguments are copied: the slice Args, the slices in it, with the
// slices in these, and what pointers to plain values, times and slices point to.
// What a map, a struct or another pointer refers to must stay as it is until the
// call's outcome, as must what OnError uses. Of Call.Args the fingerprint is taken
// at once, and the outcome's Call holds what was yielded and no copy.
//
// What a statement sets for its transaction, such as set_config(…, true), stays set
// for the others that share it. So a statement must set whatever it reads.
//
// Calls of one batch run in no defined order: a call that depends on another belongs
// into the next batch.
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

// batch is a DoBatch that is running.
type batch[R any] struct {
	parts
	opts     BatchOptions
	yield    func(BatchOutcome[R]) bool
	requests []Call
	calls    []*call // of requests; an invalid one has an err
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

// end reports the batch. It ends the spans of calls that a panic has left open.
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
