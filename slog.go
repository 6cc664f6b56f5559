package dedup

import (
	"context"
	"log/slog"
	"time"
)

// SlogOptions configure [NewSlogTracer].
type SlogOptions struct {
	// ShowKeys logs keys in the clear beside their hashes. Default false.
	ShowKeys bool
}

// SlogTracer writes events to a [slog.Logger]. Each replay is one record with
// the message "tool_call_deduplicated" at level Info and the attributes tool,
// scope, key_hash, first_at, age, waited, recovered and refused: alert on its
// rate. Broken effects are logged at Error; what asks for attention (keys reused,
// unexplained conflicts, resets, sweeps that failed) at Warn; what is routine
// (executed, retried, expired, swept, conflicts that a record explains) at Debug
// or Info. Arguments and results are never logged.
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

// TraceReplayed logs tool_call_deduplicated at Info.
func (t *SlogTracer) TraceReplayed(ctx context.Context, data ReplayedData) {
	t.log(ctx, slog.LevelInfo, "tool_call_deduplicated", data.CallData,
		slog.Time("first_at", data.FirstAt), slog.Duration("age", data.Age), slog.Duration("waited", data.Waited),
		slog.Bool("recovered", data.Recovered), slog.Bool("refused", data.Refused))
}

// TraceExecuted logs tool_call_executed at Debug.
func (t *SlogTracer) TraceExecuted(ctx context.Context, data ExecutedData) {
	t.log(ctx, slog.LevelDebug, "tool_call_executed", data.CallData,
		slog.Time("created_at", data.CreatedAt), slog.Duration("duration", data.Duration),
		slog.Duration("waited", data.Waited), slog.Int("attempts", data.Attempts), slog.Bool("refused", data.Refused))
}

// TraceRetried logs tool_call_retried at Info.
func (t *SlogTracer) TraceRetried(ctx context.Context, data RetriedData) {
	t.log(ctx, slog.LevelInfo, "tool_call_retried", data.CallData,
		slog.Int("attempt", data.Attempt), slog.Bool("outcome_unknown", data.Unknown),
		slog.Duration("delay", data.Delay), slog.String("error", errorText(data.Err)))
}

// TraceKeyReused logs tool_call_key_reused at Warn.
func (t *SlogTracer) TraceKeyReused(ctx context.Context, data KeyReusedData) {
	t.log(ctx, slog.LevelWarn, "tool_call_key_reused", data.CallData,
		slog.Time("first_at", data.FirstAt), slog.Duration("age", data.Age), slog.Any("changed", data.Changed))
}

// TraceExpired logs tool_call_expired at Info.
func (t *SlogTracer) TraceExpired(ctx context.Context, data ExpiredData) {
	t.log(ctx, slog.LevelInfo, "tool_call_expired", data.CallData,
		slog.Time("first_at", data.FirstAt), slog.Duration("age", data.Age))
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

// TraceSwept logs tool_dedup_swept at Debug, at Warn when it failed.
func (t *SlogTracer) TraceSwept(ctx context.Context, data SweptData) {
	level := slog.LevelDebug
	if data.Err != nil {
		level = slog.LevelWarn
	}
	t.logger.LogAttrs(ctx, level, "tool_dedup_swept",
		slog.Int64("expired", data.Expired), slog.Int64("forgotten", data.Forgotten), slog.Int("batches", data.Batches),
		slog.Duration("duration", data.Duration.Round(time.Microsecond)), slog.String("error", errorText(data.Err)))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
