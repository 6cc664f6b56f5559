package dedup

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// span is a call from its start to its end, as it is counted and as tracers see it. The
// zero span is that of a call without a Deduper or a context.
type span struct {
	d     *Deduper
	ctx   context.Context // the call's, nil where no tracer has seen it start
	data  CallData
	began time.Time
	ended bool
	// earlier and later are the spans beside this one in stats.
	earlier, later *span
}

// startCall begins the span of a call, and returns the call's context.
func (d *Deduper) startCall(ctx context.Context, function string, asked *Call) (context.Context, *solo) {
	s := &solo{}
	s.call.span = &s.span
	if ctx == nil || d == nil || d.pool == nil {
		return ctx, s
	}
	s.span.d, s.span.began = d, time.Now()
	s.span.data = CallData{Func: function, Scope: asked.Scope, Tool: asked.Tool, Key: asked.Key, Attrs: AttrsOf(ctx)}
	if len(d.trace.call) > 0 {
		s.span.data.KeyHash = KeyHash(asked.Key)
		for _, t := range d.trace.call {
			ctx = t.TraceCallStart(ctx, CallStartData{s.span.data})
		}
		s.span.ctx = ctx
	}
	d.stats.start(&s.span)
	return ctx, s
}

// context is the call's, where tracers see it, else ctx.
func (s *span) context(ctx context.Context) context.Context {
	if s.ctx == nil {
		return ctx
	}
	return s.ctx
}

// end ends the span of a call that err is the answer of. c is nil where it has panicked.
func (s *span) end(c *call, err error) {
	if s.d == nil || s.ended {
		return
	}
	s.ended = true
	data := CallEndData{CallData: s.data, Outcome: s.outcome(c, err), Err: err, Duration: time.Since(s.began)}
	if c != nil {
		data.Attempts, data.Waited = c.attempts, c.waiter.waited
	}
	s.d.stats.end(s, &data)
	if s.ctx == nil {
		return
	}
	if c != nil && c.rec.Outcome != "" {
		data.CreatedAt, data.ResultBytes = c.rec.CreatedAt, len(c.rec.Result)
		if !c.executed {
			data.Age = c.rec.Age()
		}
	}
	for _, t := range s.d.trace.call {
		t.TraceCallEnd(s.ctx, data)
	}
}

var errPanicked = errors.New("dedup: the call panicked")

// abandon ends the span of a call that has panicked.
func (s *span) abandon() { s.end(nil, errPanicked) }

// outcome says what came of a call, by the answer that its caller gets. c is nil where the
// call could not be taken.
func (s *span) outcome(c *call, err error) Outcome {
	switch own := err.(type) {
	case nil:
		return answered(c, OutcomeExecuted, OutcomeReplayed)
	case *RefusedError:
		return answered(c, OutcomeRefused, OutcomeRefusalReplayed)
	case *Error:
		return cmp.Or(outcomes[own.Answer], OutcomeError)
	case *InvalidError:
		return OutcomeInvalid
	case *BatchError: // of another call
		switch all := s.outcome(nil, own.Err); all {
		case OutcomeInFlight, OutcomeExhausted, OutcomeUnknown, OutcomeCancelled:
			return all
		}
		return OutcomeError
	}
	if wire.IsContextError(err) {
		return OutcomeCancelled
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return cmp.Or(outcomes[own.Answer], OutcomeError)
	}
	if _, ok := errors.AsType[*InvalidError](err); ok {
		return OutcomeInvalid
	}
	if errors.Is(err, ErrInFlight) {
		return OutcomeInFlight
	}
	return OutcomeError
}

func answered(c *call, executed, replayed Outcome) Outcome {
	switch {
	case c == nil || c.rec.Outcome == "": // of a DoTogether, whose refusals are not recorded
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
		t.TraceWaitStart(ctx, WaitStartData{CallData: callData(ctx, c.function, c.Identity), InProcess: inProcess})
	}
}

func (c *call) traceRetried(ctx context.Context, attempt int, delay time.Duration, err error, unknown bool) {
	for _, t := range c.d.trace.retried {
		t.TraceRetried(ctx, RetriedData{CallData: callData(ctx, c.function, c.Identity), Attempt: attempt, Err: err, Unknown: unknown, Delay: delay})
	}
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
	case c.executed:
		b.Executed++
	case c.rec.Outcome != "" && (err == nil || errors.Is(err, ErrRefused)):
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
