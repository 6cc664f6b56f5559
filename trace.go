package dedup

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"
)

// Tracer is called on events of calls, in the manner of pgx's tracers. The library calls its
// methods on the goroutine of the call, and outside its transactions unless an event's
// documentation tells otherwise. They must not block. Their panics are logged by [slog.Default] and
// change no answer. To implement only some methods, embed MultiTracer() in a tracer.
type Tracer interface {
	// TraceCallStart is called when a call of any function begins, before it is checked. The
	// returned context becomes the call's: it reaches the effect and its statements, and so pgx's
	// own tracers. Calls of a DoBatch that share statements send them with the context of DoBatch.
	// A DoBatch that cannot begin makes no calls.
	TraceCallStart(ctx context.Context, call CallData) context.Context

	// TraceCallEnd is called once for every call that began, with the context that TraceCallStart
	// returned, when the answer is certain, and also when the effect panics. In DoTx that is before
	// the caller commits.
	TraceCallEnd(ctx context.Context, data CallEndData)

	// TraceEvent is called on every other event. Use a type switch on event.
	TraceEvent(ctx context.Context, event Event)
}

// MultiTracer returns a tracer that passes every call and event to all tracers in order. It skips
// nil.
func MultiTracer(tracers ...Tracer) Tracer {
	return multiTracer(slices.DeleteFunc(slices.Clone(tracers), func(t Tracer) bool { return t == nil }))
}

// guardTracer returns a tracer that logs the panics of t and continues, because a tracer must not
// change an answer.
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

// CallData identifies the call of an event. Events contain no arguments or results, with one
// exception: CallEndData.Err may be a refusal, or have a result in InvalidError.Stored. The text of
// another error may quote values: [NewSlogTracer] logs the SQLSTATE of a server's error instead.
type CallData struct {
	// Func is the called function: "Do", "DoTx", "DoStatement", "DoBatch", "Reset", "Resolve" or
	// "Erase". Another package that sends events gives its own name.
	Func string
	// Scope and Tool are the names that the caller gave, even if they are invalid.
	Scope, Tool string
	// Key is the key in the clear. It may contain personal data: log KeyHash instead.
	Key string
	// KeyHash is [KeyHash] of Key.
	KeyHash string
	// Attrs are the attributes of the caller's context; see [WithAttrs].
	Attrs []slog.Attr
}

// CallEndData is the data of TraceCallEnd.
type CallEndData struct {
	CallData
	Outcome Outcome
	// Err is the error that the caller gets. It is nil if the outcome is executed, replayed, or
	// recovered with a result.
	Err error
	// Attempts is as in Result.
	Attempts int
	// Duration is the time from TraceCallStart to TraceCallEnd. Waited is the part of it that the
	// call waited for a twin, as in Result.Waited.
	Duration, Waited time.Duration
	// CreatedAt is the time at which the answering record was written, by the database's clock;
	// zero without a record. Age is the time since then. It is 0 for an effect that this call
	// executed, and for a call that followed the executing one in the same process.
	CreatedAt time.Time
	Age       time.Duration
	// ResultBytes is the size of the recorded JSON text, 0 if none is recorded.
	ResultBytes int
}

// Outcome is how a call ended. Its text is a valid label of a metric.
type Outcome string

const (
	OutcomeExecuted        Outcome = "executed"         // the effect ran and is committed
	OutcomeReplayed        Outcome = "replayed"         // answered with the result of a record
	OutcomeRecovered       Outcome = "recovered"        // answered with this call's own record, after a lost reply to COMMIT
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

// Event is a [WaitStartData], [RetriedData], [BatchData], [ChangedData] or [SweptData], or an event
// of another package of the library, which embeds a [CallData].
type Event interface {
	// about returns the call. Its KeyHash is empty if the event belongs to several calls, or to
	// none.
	about() CallData
}

func (c CallData) about() CallData { return c }

// WaitStartData is the event of a call that begins to wait for a twin. It occurs once for twins in
// this process and once for twins in other processes. CallEndData.Waited has the total time.
type WaitStartData struct {
	CallData
	// InProcess is true if the twin runs in this process. Waiting for it takes no look-ups.
	InProcess bool
}

// RetriedData is the event before each pause between two attempts of a call.
type RetriedData struct {
	CallData
	// Attempt is the number of the attempt that met Err, from 1.
	Attempt int
	Err     error
	// Unknown is true if the reply to a COMMIT was lost.
	Unknown bool
	// Delay is the pause before the next attempt.
	Delay time.Duration
}

// BatchData counts the ended calls of a batch. It is the event of a DoBatch that ended with
// answers. Scope and Tool of its CallData are empty if the calls differ in them. Key and KeyHash
// are empty.
type BatchData struct {
	CallData
	// Calls is the number of ended calls. Executed counts calls that ran their effect, Replayed
	// calls that a record answered, and Failed calls that got an error. A refusal counts as failed,
	// and also as executed or replayed.
	Calls, Executed, Replayed, Failed int64
	// Duration is the time since the batch began.
	Duration time.Duration
}

// ChangedData is the event of a record that an operator freed or resolved, and of a [Deduper.Erase].
// For the latter Key and KeyHash are empty, and so is Tool if all tools were erased.
type ChangedData struct {
	CallData
	// Reason and Actor are the fields of ChangeOptions.
	Reason, Actor string
	// Freed is true if [Deduper.Reset] freed a record. Resolved is true if [Deduper.Resolve]
	// recorded a result. Both are false if there was no record.
	Freed, Resolved bool
	// Erased counts what [Deduper.Erase] erased.
	Erased EraseResult
	// Audited is true if tool_dedup_audit has a line of the change; for an erasure, of each record
	// that could have one. It is false if no record was changed, or if the table is missing.
	Audited bool
}

// SweptData is the event of a sweep that ran.
type SweptData struct {
	SweepResult
	Duration time.Duration
	// Err is the error that ended the sweep, if one did.
	Err error
	// StatsErr is the error with which a Sweeper with RecordStats failed to write its counts before
	// the sweep.
	StatsErr error
}

func (SweptData) about() CallData { return CallData{} }

// SweepResult counts the work of a sweep.
type SweepResult struct {
	// Expired counts records that lost their result and became tombstones. Forgotten counts deleted
	// records.
	Expired, Forgotten int64
	// Batches counts transactions with due records.
	Batches int
	// Skipped is true if the sweep stopped because another instance was sweeping.
	Skipped bool
}

type attrsKey struct{}

// WithAttrs returns a context whose calls have these attributes in every event of a tracer:
// [NewSlogTracer] writes them on each line, and oteldedup on each span. They identify the caller,
// such as the agent and the conversation. The attributes of ctx are kept, except that a new one
// replaces an old one of the same key.
//
// The attributes do not belong to a call's identity or arguments, and are not stored. A replay has
// the attributes of its own caller, and work that another process does later has none. Metrics do
// not get them as labels. Calls of one DoBatch share the attributes of its context.
//
// Package tool sets "session" and "turn" for every call with a session.
func WithAttrs(ctx context.Context, attrs ...slog.Attr) context.Context {
	all := slices.DeleteFunc(slices.Clone(AttrsOf(ctx)), func(old slog.Attr) bool {
		return slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == old.Key })
	})
	return context.WithValue(ctx, attrsKey{}, append(all, attrs...))
}

// AttrsOf returns the attributes of ctx, or nil. The caller must not change the slice.
func AttrsOf(ctx context.Context) []slog.Attr {
	attrs, _ := ctx.Value(attrsKey{}).([]slog.Attr)
	return attrs
}
