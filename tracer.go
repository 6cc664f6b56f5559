package dedup

import (
	"context"
	"time"
)

// Tracer is a value that implements one or more of the interfaces below, in the
// manner of pgx's tracers; New refuses one that implements none. Its methods are
// called on the goroutine of the call, outside any transaction of the library's but
// where they say otherwise. They must not block.
type Tracer any

// CallData says which call an event is about. Arguments and results are never
// part of an event.
type CallData struct {
	// Func is the function that was called: "Do", "DoTx", "DoStatement", "DoBatch",
	// "DoTogether" or "Reset".
	Func string
	// Scope and Tool are as the caller gave them, also those of an invalid call.
	Scope, Tool string
	// Key is the key in the clear. It may name a person or an order: log
	// KeyHash instead.
	Key string
	// KeyHash is [KeyHash] of Key.
	KeyHash string
}

// CallTracer is called for every call of every function, whatever comes of it. A span is
// begun and ended here, and calls are counted.
type CallTracer interface {
	// TraceCallStart is called when a call begins, before it is checked. The context that
	// it returns is the call's from then on: it reaches the effect and its statements, and
	// so pgx's own tracers. Calls of DoBatch and DoTogether that share statements send
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
	// Err is what the caller gets; nil where the outcome is executed, replayed, or
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

// Outcome is what came of a call. Its text may be the value of a metric's label.
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
	OutcomeInvalid         Outcome = "invalid"          // ErrInvalid
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
	// Reason is what the operator gave.
	Reason string
	// Freed is false where there was nothing to free.
	Freed bool
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
}

// MultiTracer returns a tracer that passes every event on to all of tracers
// that take it, in order.
func MultiTracer(tracers ...Tracer) Tracer { return multiTracer(tracers) }

type multiTracer []Tracer
