package dedup

import (
	"context"
	"time"
)

// Tracer is a value that implements one or more of the interfaces below, in the
// manner of pgx's tracers; New refuses one that implements none. Its methods are
// called on the goroutine of the call, with the call's context, after the fact
// and outside any transaction but where they say otherwise. They must not block.
type Tracer any

// CallData says which call an event is about. Arguments and results are never
// part of an event.
type CallData struct {
	Scope, Tool string
	// Key is the key in the clear. It may name a person or an order: log
	// KeyHash instead.
	Key string
	// KeyHash is [KeyHash] of Key.
	KeyHash string
}

// ExecutedTracer is called for every call whose effect this process ran and
// committed, once. In DoTx it is called before the caller commits.
type ExecutedTracer interface {
	TraceExecuted(ctx context.Context, data ExecutedData)
}

// ExecutedData is the data of TraceExecuted.
type ExecutedData struct {
	CallData
	// Refused is true when the effect refused with Final and the refusal was
	// recorded.
	Refused bool
	// CreatedAt is when the record was written, by the database's clock.
	CreatedAt time.Time
	// Duration is the time of the call without Waited; Attempts counts its
	// transactions.
	Duration, Waited time.Duration
	Attempts         int
}

// ReplayedTracer is called for every call that was answered from a record.
type ReplayedTracer interface {
	TraceReplayed(ctx context.Context, data ReplayedData)
}

// ReplayedData is the data of TraceReplayed.
type ReplayedData struct {
	CallData
	// Refused is true when the recorded answer is a refusal.
	Refused bool
	// Recovered is Result.Recovered: the replay is of this call's own effect,
	// most likely.
	Recovered bool
	// FirstAt is when the first call was recorded and Age the time since, both
	// by the database's clock. Age is 0 for a twin that waited for the first
	// call in the same process.
	FirstAt time.Time
	Age     time.Duration
	// Waited is the time spent waiting for the first call to end.
	Waited time.Duration
}

// WaitTracer is called when a call begins to wait for a twin, and of the wait once
// the call has ended.
type WaitTracer interface {
	TraceWaitStart(ctx context.Context, data WaitStartData)
	TraceWaited(ctx context.Context, data WaitedData)
}

// WaitStartData is the data of TraceWaitStart.
type WaitStartData struct {
	CallData
	// InProcess is true when the twin runs in this process, so that waiting costs
	// no look-ups.
	InProcess bool
}

// WaitedData is the data of TraceWaited.
type WaitedData struct {
	CallData
	Waited time.Duration
	// Err is ErrInFlight or a context's error where the wait ended without an
	// answer.
	Err error
}

// ConflictTracer is called when an attempt failed and a twin's record explained
// it, and of unique violations that no record explains.
type ConflictTracer interface {
	TraceConflict(ctx context.Context, data ConflictData)
}

// ConflictData is the data of TraceConflict.
type ConflictData struct {
	CallData
	// Resolved is true when the twin's record was found and answered the call.
	Resolved bool
	// SQLState, Table and Constraint are what the server named of the attempt's
	// failure; each may be empty.
	SQLState, Table, Constraint string
}

// KeyReusedTracer is called for calls that were refused because their identity was
// used before with other arguments.
type KeyReusedTracer interface {
	TraceKeyReused(ctx context.Context, data KeyReusedData)
}

// KeyReusedData is the data of TraceKeyReused.
type KeyReusedData struct {
	CallData
	FirstAt time.Time
	Age     time.Duration
	// Changed names the top-level arguments that differ.
	Changed []string
}

// ExpiredTracer is called for calls that came after their result had expired.
type ExpiredTracer interface {
	TraceExpired(ctx context.Context, data ExpiredData)
}

// ExpiredData is the data of TraceExpired.
type ExpiredData struct {
	CallData
	FirstAt time.Time
	Age     time.Duration
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

// BrokenTracer is called when an effect ended its own transaction.
type BrokenTracer interface {
	TraceBroken(ctx context.Context, data BrokenData)
}

// BrokenData is the data of TraceBroken.
type BrokenData struct {
	CallData
	Err error
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
