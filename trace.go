package dedup

import (
	"context"
	"errors"
	"time"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// tracers are a Tracer's interfaces, sorted out once.
type tracers struct {
	call    []CallTracer
	wait    []WaitTracer
	retried []RetriedTracer
	reset   []ResetTracer
	swept   []SweptTracer
	batch   []batchTracer
}

func newTracers(t Tracer) (tracers, error) {
	var all tracers
	return all, all.add(t)
}

func (ts *tracers) add(t Tracer) error {
	if t == nil {
		return nil
	}
	if many, ok := t.(multiTracer); ok {
		for _, one := range many {
			if err := ts.add(one); err != nil {
				return err
			}
		}
		return nil
	}
	taken := collect(&ts.call, t)
	taken = collect(&ts.wait, t) || taken
	taken = collect(&ts.retried, t) || taken
	taken = collect(&ts.reset, t) || taken
	taken = collect(&ts.swept, t) || taken
	taken = collect(&ts.batch, t) || taken
	if !taken {
		return invalidOption("Tracer", "implements none of the tracer interfaces; is it a value where a pointer is needed?")
	}
	return nil
}

func collect[T any](list *[]T, t Tracer) bool {
	one, ok := t.(T)
	if ok {
		*list = append(*list, one)
	}
	return ok
}

func callData(function string, id table.Identity) CallData {
	return CallData{Func: function, Scope: id.Scope, Tool: id.Tool, Key: id.Key, KeyHash: KeyHash(id.Key)}
}

// span is a call that tracers see, from its start to its end. A nil one is a call that
// none sees.
type span struct {
	d     *Deduper
	ctx   context.Context // the call's
	data  CallData
	began time.Time
	ended bool
}

// startCall begins the span of a call, and returns the call's context.
func (d *Deduper) startCall(ctx context.Context, function string, asked *Call) (context.Context, *span) {
	if ctx == nil || d == nil || len(d.trace.call) == 0 {
		return ctx, nil
	}
	s := &span{d: d, data: callData(function, table.Identity{Scope: asked.Scope, Tool: asked.Tool, Key: asked.Key}), began: time.Now()}
	for _, t := range d.trace.call {
		ctx = t.TraceCallStart(ctx, CallStartData{s.data})
	}
	s.ctx = ctx
	return ctx, s
}

// context is the call's, where tracers see it, else ctx.
func (s *span) context(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return s.ctx
}

// end ends the span of a call that err is the answer of. c is nil where the call could not
// be taken.
func (s *span) end(c *call, err error) {
	if s == nil || s.ended {
		return
	}
	s.ended = true
	data := CallEndData{CallData: s.data, Outcome: outcome(c, err), Err: err, Duration: time.Since(s.began)}
	if c != nil {
		data.Attempts, data.Waited = c.attempts, c.waiter.waited
		if c.rec.Outcome != "" {
			data.CreatedAt, data.ResultBytes = c.rec.CreatedAt, len(c.rec.Result)
			if !c.executed {
				data.Age = c.rec.Age()
			}
		}
	}
	for _, t := range s.d.trace.call {
		t.TraceCallEnd(s.ctx, data)
	}
}

var errPanicked = errors.New("dedup: the call panicked")

// abandon ends the span of a call that has panicked.
func (s *span) abandon() { s.end(nil, errPanicked) }

// outcome says what came of a call, by the answer that its caller gets.
func outcome(c *call, err error) Outcome {
	switch own := err.(type) {
	case nil:
		return answered(c, OutcomeExecuted, OutcomeReplayed)
	case *RefusedError:
		return answered(c, OutcomeRefused, OutcomeRefusalReplayed)
	case *Error:
		return outcomes[own.Answer]
	case *InvalidError:
		return OutcomeInvalid
	case *toolError:
		return outcome(c, own.err)
	}
	switch {
	case err == ErrInFlight:
		return OutcomeInFlight
	case wire.IsContextError(err):
		return OutcomeCancelled
	default:
		return OutcomeError
	}
}

func answered(c *call, executed, replayed Outcome) Outcome {
	switch {
	case c == nil:
		return OutcomeError
	case c.executed:
		return executed
	case c.recovered:
		return OutcomeRecovered
	default:
		return replayed
	}
}

var outcomes = map[error]Outcome{
	ErrOutcomeUnknown: OutcomeUnknown, ErrAttemptsExhausted: OutcomeExhausted, ErrRestartTx: OutcomeRestart,
	ErrExpired: OutcomeExpired, ErrKeyReused: OutcomeKeyReused, ErrBroken: OutcomeBroken, ErrSchema: OutcomeSchema,
}

// traceWaitStart reports each kind of wait once: known is whether it has.
func (c *call) traceWaitStart(ctx context.Context, known *bool, inProcess bool) {
	if *known {
		return
	}
	*known = true
	for _, t := range c.d.trace.wait {
		t.TraceWaitStart(ctx, WaitStartData{CallData: callData(c.function, c.Identity), InProcess: inProcess})
	}
}

func (c *call) traceRetried(ctx context.Context, attempt int, delay time.Duration, err error, unknown bool) {
	for _, t := range c.d.trace.retried {
		t.TraceRetried(ctx, RetriedData{CallData: callData(c.function, c.Identity), Attempt: attempt, Err: err, Unknown: unknown, Delay: delay})
	}
}

// batchTracer is called after every DoBatch and DoTogether that has ended with answers.
// SlogTracer is one, to write one line for all the replays of a batch.
type batchTracer interface {
	traceBatch(ctx context.Context, tally batchTally, took time.Duration)
}

// batchTally is what became of a batch.
type batchTally struct {
	BatchProgress
	// scope and tool are those of all its calls, each empty where they differ.
	scope, tool string
}

// count adds a call that has come to its end.
func (b *batchTally) count(asked Call, c *call, err error) {
	if b.Calls == 0 {
		b.scope, b.tool = asked.Scope, asked.Tool
	}
	if b.scope != asked.Scope {
		b.scope = ""
	}
	if b.tool != asked.Tool {
		b.tool = ""
	}
	b.Calls++
	if err != nil {
		b.Failed++
	}
	switch {
	case c.rec.Outcome == "":
	case c.executed:
		b.Executed++
	default:
		b.Replayed++
	}
}

func (d *Deduper) traceBatch(ctx context.Context, tally batchTally, took time.Duration) {
	if tally.Calls == 0 {
		return
	}
	for _, t := range d.trace.batch {
		t.traceBatch(ctx, tally, took)
	}
}
