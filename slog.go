package dedup

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// SlogOptions configure [NewSlogTracer].
type SlogOptions struct {
	// ShowKeys logs keys in the clear beside their hashes. Default false.
	ShowKeys bool
}

// SlogTracer writes events to a [slog.Logger]. Each replay is one line with the
// message "tool_call_deduplicated" and the attributes tool, scope, key_hash,
// first_at, age_seconds, waited_seconds, recovered and refused: alert on its rate.
// The replays of a [DoBatch] or [DoTogether] are one line "tool_batch_deduplicated"
// together, with the attributes tool and scope where all its calls share them, calls,
// executed, replayed, failed and duration_seconds; their own lines are at Debug. Times
// are in seconds.
//
//	Error  a broken effect
//	Warn   a key reused, a conflict that no record explains, a reset, a sweep that failed
//	Info   a replay, a batch with replays, a retry, an expired call
//	Debug  an executed call, a batch without replays, a replay in a batch, a conflict
//	       that a record explains, a sweep, also one that its cancelled context ended
//
// It samples nothing. Where a line for each replay is too many, raise the logger's
// level, or give the logger a handler that samples the message.
//
// Arguments and results are never logged.
type SlogTracer struct {
	logger *slog.Logger
	opts   SlogOptions
}

// NewSlogTracer returns a tracer that writes to logger; nil means
// slog.Default at the time of the call. A nil opts means the defaults.
func NewSlogTracer(logger *slog.Logger, opts *SlogOptions) *SlogTracer {
	if logger == nil {
		logger = slog.Default()
	}
	t := &SlogTracer{logger: logger}
	if opts != nil {
		t.opts = *opts
	}
	return t
}

func (t *SlogTracer) log(ctx context.Context, level slog.Level, msg string, call CallData, attrs ...slog.Attr) {
	if !t.logger.Enabled(ctx, level) {
		return
	}
	all := make([]slog.Attr, 0, len(attrs)+4)
	all = append(all, slog.String("tool", call.Tool), slog.String("scope", call.Scope), slog.String("key_hash", call.KeyHash))
	if t.opts.ShowKeys {
		all = append(all, slog.String("key", call.Key))
	}
	t.logger.LogAttrs(ctx, level, msg, append(all, attrs...)...)
}

// TraceReplayed logs tool_call_deduplicated at Info, at Debug in a batch.
func (t *SlogTracer) TraceReplayed(ctx context.Context, data ReplayedData) {
	level := slog.LevelInfo
	if ofBatch(ctx) {
		level = slog.LevelDebug
	}
	t.log(ctx, level, "tool_call_deduplicated", data.CallData,
		slog.Time("first_at", data.FirstAt), seconds("age", data.Age), seconds("waited", data.Waited),
		slog.Bool("recovered", data.Recovered), slog.Bool("refused", data.Refused))
}

// traceBatch logs tool_batch_deduplicated at Info where calls were answered from
// records, else tool_batch_executed at Debug.
func (t *SlogTracer) traceBatch(ctx context.Context, tally batchTally, took time.Duration) {
	level, msg := slog.LevelDebug, "tool_batch_executed"
	if tally.Replayed > 0 {
		level, msg = slog.LevelInfo, "tool_batch_deduplicated"
	}
	var of []slog.Attr
	if tally.tool != "" {
		of = append(of, slog.String("tool", tally.tool))
	}
	if tally.scope != "" {
		of = append(of, slog.String("scope", tally.scope))
	}
	t.logger.LogAttrs(ctx, level, msg, append(of,
		slog.Int64("calls", tally.Calls), slog.Int64("executed", tally.Executed), slog.Int64("replayed", tally.Replayed),
		slog.Int64("failed", tally.Failed), seconds("duration", took))...)
}

// TraceExecuted logs tool_call_executed at Debug.
func (t *SlogTracer) TraceExecuted(ctx context.Context, data ExecutedData) {
	t.log(ctx, slog.LevelDebug, "tool_call_executed", data.CallData,
		slog.Time("created_at", data.CreatedAt), seconds("duration", data.Duration),
		seconds("waited", data.Waited), slog.Int("attempts", data.Attempts), slog.Bool("refused", data.Refused))
}

// TraceRetried logs tool_call_retried at Info.
func (t *SlogTracer) TraceRetried(ctx context.Context, data RetriedData) {
	t.log(ctx, slog.LevelInfo, "tool_call_retried", data.CallData,
		slog.Int("attempt", data.Attempt), slog.Bool("outcome_unknown", data.Unknown),
		seconds("delay", data.Delay), slog.String("error", errorText(data.Err)))
}

// TraceKeyReused logs tool_call_key_reused at Warn.
func (t *SlogTracer) TraceKeyReused(ctx context.Context, data KeyReusedData) {
	t.log(ctx, slog.LevelWarn, "tool_call_key_reused", data.CallData,
		slog.Time("first_at", data.FirstAt), seconds("age", data.Age), slog.Any("changed", data.Changed))
}

// TraceExpired logs tool_call_expired at Info.
func (t *SlogTracer) TraceExpired(ctx context.Context, data ExpiredData) {
	t.log(ctx, slog.LevelInfo, "tool_call_expired", data.CallData,
		slog.Time("first_at", data.FirstAt), seconds("age", data.Age))
}

// TraceConflict logs tool_call_conflict, at Debug when a record resolved it and
// at Warn when none did.
func (t *SlogTracer) TraceConflict(ctx context.Context, data ConflictData) {
	level := slog.LevelWarn
	if data.Resolved {
		level = slog.LevelDebug
	}
	t.log(ctx, level, "tool_call_conflict", data.CallData,
		slog.Bool("resolved", data.Resolved), slog.String("sqlstate", data.SQLState),
		slog.String("table", data.Table), slog.String("constraint", data.Constraint))
}

// TraceBroken logs tool_call_broken at Error.
func (t *SlogTracer) TraceBroken(ctx context.Context, data BrokenData) {
	t.log(ctx, slog.LevelError, "tool_call_broken", data.CallData, slog.String("error", errorText(data.Err)))
}

// TraceReset logs tool_call_reset at Warn, with the operator's reason.
func (t *SlogTracer) TraceReset(ctx context.Context, data ResetData) {
	t.log(ctx, slog.LevelWarn, "tool_call_reset", data.CallData,
		slog.String("reason", data.Reason), slog.Bool("freed", data.Freed))
}

// TraceSwept logs tool_dedup_swept at Debug, at Warn when it failed. A sweep whose
// context was cancelled, as a Sweeper's is when its process shuts down, did not fail.
func (t *SlogTracer) TraceSwept(ctx context.Context, data SweptData) {
	level := slog.LevelDebug
	if data.Err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		level = slog.LevelWarn
	}
	t.logger.LogAttrs(ctx, level, "tool_dedup_swept",
		slog.Int64("expired", data.Expired), slog.Int64("forgotten", data.Forgotten), slog.Int("batches", data.Batches),
		seconds("duration", data.Duration), slog.String("error", errorText(data.Err)))
}

// seconds is a duration in seconds, under a name that ends in the unit: a handler for
// JSON writes a time.Duration as a bare number of nanoseconds.
func seconds(name string, d time.Duration) slog.Attr {
	return slog.Float64(name+"_seconds", d.Round(time.Microsecond).Seconds())
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
