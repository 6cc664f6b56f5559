package dedup

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"
)

// Tracer is called when something happens to calls, in the manner of pgx's tracers. Its methods
// are called on the goroutine of the call, outside any transaction of the library's but
// where an event says otherwise. They must not block. Their panics are logged by [slog.Default], and change no answer. A tracer that embeds MultiTracer() has the
// methods that it does not need.
type Tracer interface {
	// TraceCallStart is called when a call of any function begins, before it is checked. The
	// context that it returns is the call's from then on: it reaches the effect and its
	// statements, and so pgx's own tracers. Calls of DoBatch that share statements send
	// them with the context that their function was given. A DoBatch that cannot begin
	// makes no calls.
	TraceCallStart(ctx context.Context, call CallData) context.Context

	// TraceCallEnd is called once for every call that began, with the context that
	// TraceCallStart returned, when its answer is certain; also when its effect panics. In
	// DoTx that is before the caller commits.
	TraceCallEnd(ctx context.Context, data CallEndData)

	// TraceEvent is called with the context of what happens beside the start and the end of
	// calls. A switch on the event's type says what that is.
	TraceEvent(ctx context.Context, event Event)
}

// MultiTracer returns a tracer that passes every call and event on to all of tracers, in order.
// It passes over those that are nil.
func MultiTracer(tracers ...Tracer) Tracer {
	return multiTracer(slices.DeleteFunc(slices.Clone(tracers), func(t Tracer) bool { return t == nil }))
}

// guardTracer returns a tracer that logs the panics of t and goes on: what a tracer does with an
// event must not take the place of an answer.
func guardTracer(t Tracer) Tracer {
	if _, guarded := t.(guardedTracer); guarded || t == nil {
		return t
	}
	return guardedTracer{t}
}

type guardedTracer struct{ Tracer }

func (t guardedTracer) TraceCallStart(ctx context.Context, call CallData) (own context.Context) {
	own = ctx
	defer logPanic(ctx)
	return t.Tracer.TraceCallStart(ctx, call)
}

func (t guardedTracer) TraceCallEnd(ctx context.Context, data CallEndData) {
	defer logPanic(ctx)
	t.Tracer.TraceCallEnd(ctx, data)
}

func (t guardedTracer) TraceEvent(ctx context.Context, event Event) {
	defer logPanic(ctx)
	t.Tracer.TraceEvent(ctx, event)
}

// logPanic is deferred around a tracer's method.
func logPanic(ctx context.Context) {
	if p := recover(); p != nil {
		slog.ErrorContext(ctx, "dedup: Options.Tracer panicked", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}

type multiTracer []Tracer

func (m multiTracer) TraceCallStart(ctx context.Context, call CallData) context.Context {
	for _, t := range m {
		ctx = t.TraceCallStart(ctx, call)
	}
	return ctx
}

func (m multiTracer) TraceCallEnd(ctx context.Context, data CallEndData) {
	for _, t := range m {
		t.TraceCallEnd(ctx, data)
	}
}

func (m multiTracer) TraceEvent(ctx context.Context, event Event) {
	for _, t := range m {
		t.TraceEvent(ctx, event)
	}
}

// CallData says which call an event is about. Arguments and results are never
// part of an event.
type CallData struct {
	// Func is the function that was called: "Do", "DoTx", "DoStatement", "DoBatch"
	// or "Reset".
	Func string
	// Scope and Tool are as the caller gave them, also those of an invalid call.
	Scope, Tool string
	// Key is the key in the clear. It may name a person or an order: log
	// KeyHash instead.
	Key string
	// KeyHash is [KeyHash] of Key.
	KeyHash string
	// Attrs are those of the caller's context; see [WithAttrs].
	Attrs []slog.Attr
}

// CallEndData is the data of TraceCallEnd.
type CallEndData struct {
	CallData
	Outcome Outcome
	// Err is what the caller gets, nil where the outcome is executed, replayed, or
	// recovered with a result.
	Err error
	// Attempts is as in Result.
	Attempts int
	// Duration is the time from TraceCallStart to here, and Waited the part of it that was
	// spent waiting for a twin, as Result.Waited has it.
	Duration, Waited time.Duration
	// CreatedAt is when the record was written that answers the call, by the database's
	// clock, and zero where there is none. Age is the time since then; 0 for an effect that
	// has just been executed, and for a twin that waited for it in the same process.
	CreatedAt time.Time
	Age       time.Duration
	// ResultBytes is the size of the recorded JSON text.
	ResultBytes int
}

// Outcome is how a call ended. Its text may be the value of a metric's label.
type Outcome string

const (
	OutcomeExecuted        Outcome = "executed"         // the effect ran and is committed
	OutcomeReplayed        Outcome = "replayed"         // answered with the result of a record
	OutcomeRecovered       Outcome = "recovered"        // answered with this call's own record, after a lost answer to COMMIT
	OutcomeRefused         Outcome = "refused"          // the effect refused with Final, and the refusal is recorded
	OutcomeRefusalReplayed Outcome = "refusal_replayed" // answered with the refusal of a record
	OutcomeKeyReused       Outcome = "key_reused"       // ErrKeyReused
	OutcomeExpired         Outcome = "expired"          // ErrExpired
	OutcomeInFlight        Outcome = "in_flight"        // ErrInFlight
	OutcomeUnknown         Outcome = "unknown"          // ErrOutcomeUnknown
	OutcomeExhausted       Outcome = "exhausted"        // ErrAttemptsExhausted
	OutcomeBroken          Outcome = "broken"           // ErrBroken
	OutcomeRestart         Outcome = "restart"          // ErrRestartTx
	OutcomeSchema          Outcome = "schema"           // ErrSchema
	OutcomeInvalid         Outcome = "invalid"          // ErrInvalid; also of an effect that is committed and whose result does not fit the caller's type
	OutcomeCancelled       Outcome = "cancelled"        // a context ended
	OutcomeError           Outcome = "error"            // the effect's own error, a panic, or a fault of the database that is not transient
)

// Event is something that happened: a [WaitStartData], [RetriedData], [BatchData],
// [ResetData] or [SweptData]. Other packages of the library have events of their own, which
// embed a [CallData].
type Event interface {
	// about is the call. Its KeyHash is empty where the event is about several calls, or none.
	about() CallData
}

func (c CallData) about() CallData { return c }

// WaitStartData is the event of a call that begins to wait for a twin. There is one for a
// twin in this process, and one for a twin in another. CallEndData.Waited has how long it was.
type WaitStartData struct {
	CallData
	// InProcess is true when the twin runs in this process, so that waiting costs
	// no look-ups.
	InProcess bool
}

// RetriedData is the event before each pause between two attempts of a call.
type RetriedData struct {
	CallData
	// Attempt is the number of the attempt that met Err, from 1.
	Attempt int
	Err     error
	// Unknown is true when the answer to a COMMIT was lost.
	Unknown bool
	// Delay is the pause before the next attempt.
	Delay time.Duration
}

// BatchData counts the calls of a batch that have come to an end. It is the event of a DoBatch that
// has ended with answers. Of its CallData, Scope and Tool are those of all its calls, each empty
// where they differ. Key and KeyHash are empty.
type BatchData struct {
	CallData
	// Calls is all of them: those that ran their effect, those that were response
	// from a record, and those that got an error. A refusal counts as an error
	// and as what it was besides.
	Calls, Executed, Replayed, Failed int64
	// Duration is the time since the batch began.
	Duration time.Duration
}

// ResetData is the event of a record that an operator freed or resolved.
type ResetData struct {
	CallData
	// Reason and Actor are what the operator gave.
	Reason, Actor string
	// Freed is true if [Deduper.Reset] freed a record, and Resolved if [Deduper.Resolve] gave one
	// its result. Both are false if there was no such record.
	Freed, Resolved bool
	// Audited is true when tool_dedup_audit has a line of it. It is false where nothing was
	// changed, and where the table is missing.
	Audited bool
}

// SweptData is the event of a sweep that ran.
type SweptData struct {
	SweepResult
	Duration time.Duration
	// Err is the error that ended the sweep, if one did.
	Err error
	// StatsErr is why a Sweeper with RecordStats could not write its counts before the sweep.
	StatsErr error
}

func (SweptData) about() CallData { return CallData{} }

// SweepResult says what a sweep did.
type SweepResult struct {
	// Expired counts records that lost their result and became tombstones,
	// Forgotten those that were deleted.
	Expired, Forgotten int64
	// Batches counts transactions that found something to do.
	Batches int
	// Skipped is true when another instance was sweeping, so that this one
	// stopped.
	Skipped bool
}

type attrsKey struct{}

// WithAttrs returns a context whose calls have these attributes in every event that tracers
// are told: that of [NewSlogTracer] writes them on each line, and oteldedup on each span. They say who
// calls, such as the agent and the conversation. Those of ctx are kept, but for ones of the
// same key, which are replaced.
//
// They are no part of a call's identity or arguments, and are not stored: a replay has those
// of its own caller, and what is done later in another process has none. They are no labels of
// metrics. Calls of one DoBatch share those of its context.
//
// Package tool sets "session" and "turn" for every call that comes with a session.
func WithAttrs(ctx context.Context, attrs ...slog.Attr) context.Context {
	all := slices.DeleteFunc(slices.Clone(AttrsOf(ctx)), func(old slog.Attr) bool {
		return slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == old.Key })
	})
	return context.WithValue(ctx, attrsKey{}, append(all, attrs...))
}

// AttrsOf returns the attributes that [WithAttrs] has given ctx, nil where there are none. The
// slice must not be changed.
func AttrsOf(ctx context.Context) []slog.Attr {
	attrs, _ := ctx.Value(attrsKey{}).([]slog.Attr)
	return attrs
}
