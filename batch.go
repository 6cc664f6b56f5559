package dedup

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
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
// A part of calls is looked up in the trip that runs it: the statement of a call that was
// made before does not run, unless it races with the first. Where a call fails, others that
// shared its transaction are undone with it, and run again.
//
// When a call has used up Options.Retry without a transaction that could be opened,
// those taken with it that are still to run get its error, ErrAttemptsExhausted, and
// make no attempts of their own.
//
// On servers other than plain PostgreSQL the records of Size calls are looked up in one round trip, and each call
// without one is a transaction of its own.
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

// batch is one DoBatch on its way.
type batch[R any] struct {
	parts
	opts   BatchOptions
	yield  func(BatchOutcome[R]) bool
	asked  []Call
	calls  []*call // of asked; one that cannot be taken has an err
	values []*R
	taken  int
	tally  BatchData
	began  time.Time
}

// take takes one call, and reports whether to go on.
func (b *batch[R]) take(asked StatementCall) bool {
	ctx, c := startCall(b.ctx, b.d, "DoBatch", &asked.Call)
	value := new(R)
	b.asked, b.calls, b.values = append(b.asked, asked.Call), append(b.calls, c), append(b.values, value)
	if c.err = checkStatement(ctx, c, b.d, &asked.Call, &asked.Statement, value); c.err == nil {
		c.stmt.Args = keptArgs(c.stmt.Args)
	}
	if b.taken++; len(b.calls) < b.opts.Size && b.ctx.Err() == nil {
		return true
	}
	return b.flush()
}

// flush runs the calls taken so far and hands their outcomes out.
func (b *batch[R]) flush() bool {
	if len(b.calls) == 0 {
		return true
	}
	b.run(b.calls)
	first := b.taken - len(b.calls)
	outcomes := make([]BatchOutcome[R], len(b.calls))
	for i, c := range b.calls {
		out := BatchOutcome[R]{Index: first + i, Call: b.asked[i]}
		out.Result, out.Err = answer(c, *b.values[i], c.err)
		out.Err = c.end(out.Err)
		b.tally.count(c, out.Err)
		outcomes[i] = out
	}
	b.asked, b.calls, b.values = b.asked[:0], b.calls[:0], b.values[:0]
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

// end reports the batch, and ends the spans of calls that a panic has left.
func (b *batch[R]) end() {
	for _, c := range b.calls {
		c.span.abandon()
	}
	if trace := b.d.opts.Tracer; trace != nil && b.tally.Calls > 0 {
		b.tally.Func, b.tally.Attrs, b.tally.Duration = "DoBatch", AttrsOf(b.ctx), time.Since(b.began)
		trace.TraceEvent(b.ctx, b.tally)
	}
}

// count adds a call that has come to its end.
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

// parts answers the calls of a batch that were taken together. A part is a transaction in which
// their statements ride. Calls share parts for as long as that goes well; a call that cannot share
// one runs alone, as DoStatement does.
type parts struct {
	ctx context.Context
	d   *Deduper
	// alone are the calls that are to run alone. failuresLeft is how many more parts may fail
	// before all that is left runs alone.
	alone        []*call
	failuresLeft int
}

// minFailures is how many parts may fail at least before the calls that are left run alone. A
// large batch is allowed as many as a quarter of its calls.
const minFailures = 3

// run answers every call that was taken without an error. A call whose identity comes a second
// time gets the answer of the first.
func (b *parts) run(calls []*call) {
	firsts := make(map[table.Identity]*call, len(calls))
	var once, repeats []*call
	for _, c := range calls {
		switch {
		case c.err != nil:
		case firsts[c.Identity] != nil:
			repeats = append(repeats, c)
		default:
			firsts[c.Identity] = c
			once = append(once, c)
		}
	}
	// Sorted, so that two batches do not wait for each other crosswise.
	slices.SortFunc(once, func(a, b *call) int { return a.Compare(b.Identity) })
	rides := b.d.rides(b.ctx)
	if !rides || slices.ContainsFunc(once, func(c *call) bool { return c.lookFirst }) {
		once = b.lookUp(once)
	}
	b.alone, b.failuresLeft = nil, max(minFailures, len(once)/4)
	if !rides {
		b.alone = once
	} else {
		for part := range slices.Chunk(once, table.MaxLocks) { // each call has its lock
			b.send(part)
		}
	}
	var outage *exhaustion
	for _, c := range append(b.alone, repeats...) {
		switch first := firsts[c.Identity]; {
		case first != c && first.err == nil:
			c.rec = first.rec
		case outage != nil && b.ctx.Err() == nil: // all would wait as long, one after the other
			c.err = c.exhaust(outage)
		default:
			c.err = c.do(c.span.ctx)
			if c.exhausted != nil && c.exhausted.outage {
				outage = c.exhausted
			}
		}
	}
}

// send answers the calls of a part. Where one of them makes it fail, that goes alone. The calls
// before it have proved to go through, and those behind it have not been tried: each is a part of
// its own.
func (b *parts) send(part []*call) {
	for len(part) > 1 && b.failuresLeft >= 0 {
		v, culprit := b.attempt(part)
		switch v.kind {
		case done:
			for _, c := range part {
				c.err = c.settle(b.ctx)
			}
			return
		case unknown:
			for _, c := range part {
				c.doubt.add(v.err, c.tried)
			}
			b.alone = append(b.alone, part...)
			return
		}
		b.failuresLeft--
		switch rest := part; {
		case culprit >= 0:
			b.send(part[:culprit])
			b.alone = append(b.alone, part[culprit])
			part = part[culprit+1:]
			continue
		case wire.SQLState(v.err) == wire.CodePreparedMissing: // somebody has discarded what was prepared
			continue
		case table.IsConflict(v.err):
			b.lookUp(part)
			fallthrough
		case v.kind == found:
			if rest = b.undone(part); len(rest) < len(part) {
				part = rest
				continue
			}
		}
		break // each call finds out why
	}
	b.alone = append(b.alone, part...)
}

// undone are the calls of a part that may go together again. Those with a record are answered by
// it; those with a twin, and those whose record has to be deleted first, go alone.
func (b *parts) undone(part []*call) (rest []*call) {
	for _, c := range part {
		switch {
		case c.rec != nil:
		case c.seen.Busy, c.walks:
			b.alone = append(b.alone, c)
		default:
			rest = append(rest, c)
		}
	}
	return rest
}

// attempt makes one transaction of a part: found where some have a record or a twin. culprit is
// the call that made it fail, -1 where that is not known.
func (b *parts) attempt(part []*call) (v verdict, culprit int) {
	pooled, err := b.d.acquire(b.ctx)
	if err != nil {
		return retry(err), -1
	}
	defer b.d.release(b.ctx, pooled)
	conn := pooled.Conn()
	if err = b.d.checkTable(b.ctx, conn); err == nil && b.ctx.Err() != nil {
		err = b.ctx.Err()
	}
	if err != nil {
		wire.DropUnusable(b.ctx, conn, err)
		return retry(err), -1
	}
	now := time.Now()
	entries, records := make([]*table.Entry, len(part)), make([]*table.Record, len(part))
	riders, queries := make([]*table.Rider, len(part)), make([]wire.Query, len(part))
	limit := time.Duration(0)
	for i, c := range part {
		c.attempts++
		c.tried, c.seen = now, table.Seen{}
		entries[i], records[i], riders[i], queries[i] = &c.Entry, &c.written, &c.stmt.Rider, c.stmt.Query
		if l := c.recordLimit(); l > 0 && (limit == 0 || l < limit) {
			limit = l
		}
	}
	on, t := wire.On(conn), b.d.table()
	if err := t.PrepareRiders(b.ctx, on, queries...); err != nil {
		culprit = -1
		if wire.IsRaised(err) {
			culprit = slices.IndexFunc(queries, func(q wire.Query) bool { return !on.Knows(q) })
		}
		wire.DropUnusable(b.ctx, conn, err)
		return fail(err), culprit
	}
	started, failed, err := t.OpenAll(b.ctx, on, entries, riders, func(n int, s *table.Seen) {
		part[n].seen = *s
		part[n].lookedUp()
	})
	switch {
	case failed >= 0:
		if mayBeStale(err) {
			on.Stale(queries[failed])
		}
		wire.DropUnusable(b.ctx, conn, err)
		return fail(err), failed
	case table.IsStopped(err):
		return verdict{kind: found}, -1
	case err != nil:
		wire.DropUnusable(b.ctx, conn, err)
		return fail(err), -1
	case b.ctx.Err() != nil:
		return retry(b.ctx.Err()), -1
	}
	if err := wire.CheckSession(conn.PgConn()); err != nil {
		return fail(err), -1
	}
	for _, c := range part {
		c.written = table.NewRecord(&c.Entry, table.Done, c.stmt.row)
	}
	p := on.Pipeline()
	t.QueueRecords(p, entries, records, &started, limit)
	outcome, err := b.d.sendCommit(b.ctx, conn, p, func() { table.ReadRecords(p, entries, records) })
	switch outcome {
	case wire.Committed:
		return verdict{kind: done}, -1
	case wire.Unknown:
		return verdict{kind: unknown, err: err}, -1
	}
	wire.DropUnusable(b.ctx, conn, err)
	return fail(err), -1
}

// lookUp looks calls up in one round trip and returns those that have no record. Where it
// fails, whatever comes next meets the same fault and says so.
func (b *parts) lookUp(part []*call) (rest []*call) {
	if len(part) > 0 {
		entries := make([]*table.Entry, len(part))
		for i, c := range part {
			entries[i] = &c.Entry
		}
		_ = b.d.onConn(b.ctx, func(on *wire.Conn) error {
			return b.d.table().LookUpAll(b.ctx, on, entries, func(n int, s *table.Seen) {
				part[n].seen = *s
				part[n].lookedUp()
			})
		})
	}
	for _, c := range part {
		if c.rec == nil {
			rest = append(rest, c)
		}
	}
	return rest
}
