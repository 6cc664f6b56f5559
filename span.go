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
	trace *tracers
	stats *stats
	ctx   context.Context // the call's, nil where no tracer has seen it start
	data  CallData
	began time.Time
	ended bool
	// earlier and later are the spans beside this one in stats.
	earlier, later *span
}

// start begins the span, and returns the call's context.
func (s *span) start(ctx context.Context, trace *tracers, stats *stats, data CallData) context.Context {
	s.trace, s.stats, s.data, s.began = trace, stats, data, time.Now()
	if len(trace.call) > 0 {
		s.data.KeyHash = KeyHash(data.Key)
		for _, t := range trace.call {
			ctx = t.TraceCallStart(ctx, CallStartData{s.data})
		}
		s.ctx = ctx
	}
	stats.start(s)
	return ctx
}

// context is the call's, where tracers see it, else ctx.
func (s *span) context(ctx context.Context) context.Context {
	if s.ctx == nil {
		return ctx
	}
	return s.ctx
}

// end ends the span of a call that err is the answer of. a is nil where it has panicked.
func (s *span) end(a *answered, attempts int, waited time.Duration, err error) {
	if s.stats == nil || s.ended {
		return
	}
	s.ended = true
	data := CallEndData{CallData: s.data, Outcome: outcomeOf(a, err), Err: err, Duration: time.Since(s.began), Attempts: attempts, Waited: waited}
	s.stats.end(s, &data)
	if s.ctx == nil {
		return
	}
	if a != nil && a.rec != nil {
		data.CreatedAt, data.ResultBytes = a.rec.CreatedAt, len(a.rec.Result)
		if !a.executed {
			data.Age = a.rec.Age()
		}
	}
	for _, t := range s.trace.call {
		t.TraceCallEnd(s.ctx, data)
	}
}

var errPanicked = errors.New("dedup: the call panicked")

// abandon ends the span of a call that has panicked.
func (s *span) abandon() { s.end(nil, 0, 0, errPanicked) }

// outcomeOf says how a call ended, by the answer that its caller gets. a is nil where the call
// has panicked.
func outcomeOf(a *answered, err error) Outcome {
	switch own := err.(type) {
	case nil:
		return recorded(a, OutcomeExecuted, OutcomeReplayed)
	case *RefusedError:
		return recorded(a, OutcomeRefused, OutcomeRefusalReplayed)
	case *Error:
		return cmp.Or(outcomes[own.Answer], OutcomeError)
	case *InvalidError:
		return OutcomeInvalid
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

// recorded is the outcome of a call that was answered by a record.
func recorded(a *answered, executed, replayed Outcome) Outcome {
	switch {
	case a == nil || a.rec == nil: // err is another call's answer, passed on by the effect
		return OutcomeError
	case a.executed:
		return executed
	case a.recovered:
		return OutcomeRecovered
	default:
		return replayed
	}
}

var outcomes = map[error]Outcome{
	ErrOutcomeUnknown: OutcomeUnknown, ErrAttemptsExhausted: OutcomeExhausted, ErrRestartTx: OutcomeRestart,
	ErrExpired: OutcomeExpired, ErrKeyReused: OutcomeKeyReused, ErrBroken: OutcomeBroken, ErrSchema: OutcomeSchema,
}

// count adds a call that has come to its end.
func (b *batchTally) count(scope, tool string, a *answered, err error) {
	if b.Calls == 0 {
		b.scope, b.tool = scope, tool
	}
	if b.scope != scope {
		b.scope = ""
	}
	if b.tool != tool {
		b.tool = ""
	}
	b.Calls++
	if err != nil {
		b.Failed++
	}
	switch {
	case a.executed:
		b.Executed++
	case a.rec != nil && (err == nil || errors.Is(err, ErrRefused)):
		b.Replayed++
	}
}

func (ts *tracers) endBatch(ctx context.Context, tally batchTally, took time.Duration) {
	if tally.Calls == 0 {
		return
	}
	for _, one := range ts.batch {
		one.traceBatch(ctx, tally, took)
	}
}
