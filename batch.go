package dedup

import (
	"context"
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
	// round trip and one commit hold up to 256 of them.
	Size int
	// Progress is called after every Size calls and at the end, on the goroutine
	// that ranges over the outcomes. Default none.
	Progress func(BatchProgress)
}

// BatchProgress counts the calls of a batch that have come to an end.
type BatchProgress struct {
	// Calls is all of them: those that ran their effect, those that were answered
	// from a record, and those that got an error. A refusal counts as an error
	// and as what it was besides.
	Calls, Executed, Replayed, Failed int64
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
// turn. Size calls at a time share one round trip and one commit, in which they
// are sorted by identity. Each is on its own for all that: a call that fails, was
// made before or is in flight elsewhere is set apart, the others go without it,
// and every one gets the answer that DoStatement would give it. For all or nothing call
// [DoTx] in a loop inside [Deduper.BeginFunc].
//
// A part of calls is looked up in the trip that runs it: the statement of a call that was
// made before does not run, unless it races with the first. Where a call fails, others that
// shared its transaction are undone with it, and run again.
//
// When a call has used up Options.Retry without a transaction that could be opened,
// those taken with it that are still to run get its error, ErrAttemptsExhausted, and
// make no attempts of their own.
//
// Where effect and record cannot be one statement (see [DoStatement]), the records of
// Size calls are looked up in one round trip, and each call without one is a transaction
// of its own.
//
// Calls are taken from the iterator as outcomes are ranged over, in its order,
// and nothing runs before. A loop that is left early may leave up to Size calls
// that have run and whose outcomes nobody saw; with the same keys they are
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
			err = invalid("calls", "must not be nil")
		default:
			err = d.usable(ctx)
		}
		if err != nil {
			yield(BatchOutcome[R]{Index: -1, Err: err})
			return
		}
		b := &batch[R]{ctx: ctx, d: d, opts: o, yield: yield}
		defer b.abandon()
		began := time.Now()
		defer func() { d.trace.endBatch(ctx, b.tally, time.Since(began)) }()
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

// batch is one DoBatch on its way.
type batch[R any] struct {
	ctx   context.Context
	d     *Deduper
	opts  BatchOptions
	yield func(BatchOutcome[R]) bool

	parts parts
	asked []Call
	calls []*batchCall // of asked; one that cannot be taken has an err
	taken int
	tally batchTally
}

// take takes one call, and reports whether to go on.
func (b *batch[R]) take(asked StatementCall) bool {
	c := &batchCall{}
	ctx := c.start(b.ctx, b.d, "DoBatch", &asked.Call)
	b.asked, b.calls = append(b.asked, asked.Call), append(b.calls, c)
	if c.err = admitStatement[R](ctx, &c.call, b.d, asked.Call, asked.Statement); c.err == nil {
		c.stmt.args = keptArgs(c.stmt.args)
	}
	if b.taken++; len(b.calls) < b.opts.Size && b.ctx.Err() == nil {
		return true
	}
	return b.flush()
}

// abandon ends the spans of calls that a panic has left.
func (b *batch[R]) abandon() {
	for _, c := range b.calls {
		c.span.abandon()
	}
}

// flush runs the calls taken so far and hands their outcomes out.
func (b *batch[R]) flush() bool {
	if len(b.calls) == 0 {
		return true
	}
	b.parts.run(b.ctx, b.d, b.calls)
	first := b.taken - len(b.calls)
	outcomes := make([]BatchOutcome[R], len(b.calls))
	for i, c := range b.calls {
		out := BatchOutcome[R]{Index: first + i, Call: b.asked[i]}
		out.Result, out.Err = answerStatement[R](&c.call, c.err)
		out.Err = c.end(&out.Call, out.Err)
		b.tally.count(out.Call.Scope, out.Call.Tool, &c.answered, out.Err)
		outcomes[i] = out
	}
	b.asked, b.calls = b.asked[:0], b.calls[:0]
	if b.opts.Progress != nil {
		b.opts.Progress(BatchProgress(b.tally.counts))
	}
	for _, out := range outcomes {
		if !b.yield(out) {
			return false
		}
	}
	return true
}
