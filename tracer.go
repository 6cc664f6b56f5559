package dedup

import (
	"context"
	"log/slog"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// Tracer is a value that implements one or more of the interfaces below, in the
// manner of pgx's tracers; New refuses one that implements none. Its methods are
// called on the goroutine of the call, outside any transaction of the library's but
// where they say otherwise. They must not block.
type Tracer any

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

// CallTracer is called for every call of every function, however it ends. A span is
// begun and ended here, and calls are counted. A DoBatch that cannot begin
// makes no calls.
type CallTracer interface {
	// TraceCallStart is called when a call begins, before it is checked. The context that
	// it returns is the call's from then on: it reaches the effect and its statements, and
	// so pgx's own tracers. Calls of DoBatch that share statements send
	// them with the context that their function was given.
	TraceCallStart(ctx context.Context, data CallStartData) context.Context

	// TraceCallEnd is called once for every call that began, with the context that
	// TraceCallStart returned, when its answer is certain; also when its effect panics. In
	// DoTx that is before the caller commits.
	TraceCallEnd(ctx context.Context, data CallEndData)
}

// CallStartData is the data of TraceCallStart.
type CallStartData struct {
	CallData
}

// CallEndData is the data of TraceCallEnd.
type CallEndData struct {
	CallData
	Outcome Outcome
	// Err is what the caller gets, nil where the outcome is executed, replayed, or
	// recovered with a result.
	Err error
	// Attempts counts the call's transactions.
	Attempts int
	// Duration is the time from TraceCallStart to here, and Waited the part of it that was
	// spent waiting for a twin. DoTx waits inside Postgres, and its wait is not known.
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

// WaitTracer is called when a call begins to wait for a twin, once for a twin in this
// process and once for one in another. CallEndData.Waited has how long it was.
type WaitTracer interface {
	TraceWaitStart(ctx context.Context, data WaitStartData)
}

// WaitStartData is the data of TraceWaitStart.
type WaitStartData struct {
	CallData
	// InProcess is true when the twin runs in this process, so that waiting costs
	// no look-ups.
	InProcess bool
}

// RetriedTracer is called before each pause between two attempts of a call.
type RetriedTracer interface {
	TraceRetried(ctx context.Context, data RetriedData)
}

// RetriedData is the data of TraceRetried.
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

// ResetTracer is called for every identity that an operator freed.
type ResetTracer interface {
	TraceReset(ctx context.Context, data ResetData)
}

// ResetData is the data of TraceReset.
type ResetData struct {
	CallData
	// Reason and Actor are what the operator gave.
	Reason, Actor string
	// Freed is false where there was nothing to free.
	Freed bool
	// Audited is true when tool_dedup_audit has a line of it. It is false where nothing was
	// freed, and where the table is missing.
	Audited bool
}

// SweptTracer is called for every sweep that ran.
type SweptTracer interface {
	TraceSwept(ctx context.Context, data SweptData)
}

// SweptData is the data of TraceSwept.
type SweptData struct {
	SweepResult
	Duration time.Duration
	// Err is the error that ended the sweep, if one did.
	Err error
	// StatsErr is why a Sweeper with RecordStats could not write its counts before the sweep.
	StatsErr error
}

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

// ExternalTracer is called at every step of an effect outside of the database; see
// package external. Alert on ExternalParked and ExternalTwice.
type ExternalTracer interface {
	TraceExternal(ctx context.Context, data ExternalData)
}

// ExternalData is the data of TraceExternal.
type ExternalData struct {
	CallData
	Step ExternalStep
	// Fence is that of the act, 0 where nobody acts.
	Fence int64
	// Ref is the provider's id of what happened, where it is known.
	Ref string
	// Note says why, of a step that has a reason: the provider's error, an operator's
	// reason.
	Note string
}

// ExternalStep is a step of an effect outside of the database. Its text may be the value
// of a metric's label.
type ExternalStep string

const (
	ExternalClaiming  ExternalStep = "claiming"  // Begin has run; its transaction is not committed
	ExternalClaimed   ExternalStep = "claimed"   // the act holds the operation, and has sent nothing
	ExternalSending   ExternalStep = "sending"   // Perform is called next
	ExternalAnswered  ExternalStep = "answered"  // Perform has returned
	ExternalLooked    ExternalStep = "looked"    // Find has returned
	ExternalRecording ExternalStep = "recording" // the answer is known, and its transaction not begun
	ExternalEnding    ExternalStep = "ending"    // all but the record and COMMIT has been sent
	ExternalRecorded  ExternalStep = "recorded"  // the answer is committed
	ExternalReleased  ExternalStep = "released"  // the attempt had no effect; another follows
	ExternalResent    ExternalStep = "resent"    // Perform is called again, with the same key
	ExternalFound     ExternalStep = "found"     // Find has found what an attempt did
	ExternalUnknown   ExternalStep = "unknown"   // the attempt may have had its effect
	ExternalParked    ExternalStep = "parked"    // it may have happened, and only a person can say
	ExternalTwice     ExternalStep = "twice"     // it happened more than once
	ExternalFenced    ExternalStep = "fenced"    // somebody else has taken over; the act changed nothing
	ExternalResolved  ExternalStep = "resolved"  // a person has said what became of it
)

// MultiTracer returns a tracer that passes every event on to all of tracers
// that take it, in order.
func MultiTracer(tracers ...Tracer) Tracer { return multiTracer(tracers) }

type multiTracer []Tracer

// TraceExternal implements ExternalTracer.
func (m multiTracer) TraceExternal(ctx context.Context, data ExternalData) {
	for _, t := range m {
		if one, ok := t.(ExternalTracer); ok {
			one.TraceExternal(ctx, data)
		}
	}
}

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
	if _, ok := t.(ExternalTracer); ok { // called by package external
		taken = true
	}
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

func callData(ctx context.Context, function string, id table.Identity) CallData {
	return CallData{Func: function, Scope: id.Scope, Tool: id.Tool, Key: id.Key, KeyHash: KeyHash(id.Key), Attrs: AttrsOf(ctx)}
}

// batchTracer is called after every DoBatch that has ended with answers.
// SlogTracer is one, to write one line for all the replays of a batch.
type batchTracer interface {
	traceBatch(ctx context.Context, tally batchTally, took time.Duration)
}

// batchTally counts the outcomes of a batch.
type batchTally struct {
	counts
	// scope and tool are those of all its calls, each empty where they differ.
	scope, tool string
}

// counts are those of a [BatchProgress].
type counts struct{ Calls, Executed, Replayed, Failed int64 }
