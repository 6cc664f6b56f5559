package dedup

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// SlogOptions configure [NewSlogTracer].
type SlogOptions struct {
	// ShowKeys logs keys in the clear beside their hashes. Default false.
	ShowKeys bool
}

// SlogTracer writes events to a [slog.Logger]. Each replay is one line with the
// message "tool_call_deduplicated" and the attributes tool, scope, key_hash,
// first_at, age_seconds, waited_seconds, recovered and refused: alert on its rate.
// The replays of a [DoBatch] are one line "tool_batch_deduplicated"
// together, with the attributes tool and scope where all its calls share them, calls,
// executed, replayed, failed and duration_seconds; their own lines are at Debug. Times
// are in seconds.
//
//	Error  a broken effect, a table that cannot decide races, an effect outside that happened twice
//	Warn   a parked effect outside, a key reused, an outcome unknown, attempts exhausted, a reset, a sweep that failed
//	Info   a replay, a batch with replays, a retry, an expired call
//	Debug  an executed call, one that came to nothing else, a batch without replays, a
//	       replay in a batch, a sweep, also one that its cancelled context ended
//
// It samples nothing. Where a line for each replay is too many, raise the logger's
// level, or give the logger a handler that samples the message.
//
// Every line of a call has the attributes of [WithAttrs] as well. Arguments and results are
// never logged. Of a server's error a line has the SQLSTATE, the routine and the constraint, and
// not the message, which may quote values. Other errors of an effect are logged with their text:
// keep values out of it.
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
	all := make([]slog.Attr, 0, 4+len(call.Attrs)+len(attrs))
	all = append(all, slog.String("tool", call.Tool), slog.String("scope", call.Scope), slog.String("key_hash", call.KeyHash))
	if t.opts.ShowKeys {
		all = append(all, slog.String("key", call.Key))
	}
	all = append(all, call.Attrs...)
	t.logger.LogAttrs(ctx, level, msg, append(all, attrs...)...)
}

// TraceCallStart implements [CallTracer]. It logs nothing.
func (t *SlogTracer) TraceCallStart(ctx context.Context, _ CallStartData) context.Context { return ctx }

// TraceCallEnd logs how a call ended, under a message of its own for each kind of
// outcome; see [SlogTracer].
func (t *SlogTracer) TraceCallEnd(ctx context.Context, data CallEndData) {
	write := func(level slog.Level, msg string, attrs ...slog.Attr) {
		t.log(ctx, level, msg, data.CallData, attrs...)
	}
	firstAt, age, waited := slog.Time("first_at", data.CreatedAt), seconds("age", data.Age), seconds("waited", data.Waited)
	text := slog.String("error", wire.LogText(data.Err))
	switch data.Outcome {
	case OutcomeExecuted, OutcomeRefused:
		write(slog.LevelDebug, "tool_call_executed", slog.Time("created_at", data.CreatedAt), seconds("duration", data.Duration), waited,
			slog.Int("attempts", data.Attempts), slog.Bool("refused", data.Outcome == OutcomeRefused))
	case OutcomeReplayed, OutcomeRefusalReplayed, OutcomeRecovered:
		level := slog.LevelInfo
		if data.Func == "DoBatch" {
			level = slog.LevelDebug
		}
		write(level, "tool_call_deduplicated", firstAt, age, waited,
			slog.Bool("recovered", data.Outcome == OutcomeRecovered), slog.Bool("refused", data.Err != nil))
	case OutcomeKeyReused:
		var changed []string
		if reused, ok := errors.AsType[*Error](data.Err); ok {
			changed = reused.Changed
		}
		write(slog.LevelWarn, "tool_call_key_reused", firstAt, age, slog.Any("changed", changed))
	case OutcomeExpired:
		write(slog.LevelInfo, "tool_call_expired", firstAt, age)
	case OutcomeUnknown, OutcomeExhausted:
		write(slog.LevelWarn, "tool_call_"+string(data.Outcome), slog.Int("attempts", data.Attempts), text)
	case OutcomeBroken, OutcomeSchema:
		write(slog.LevelError, "tool_call_"+string(data.Outcome), text)
	default:
		write(slog.LevelDebug, "tool_call_failed", slog.String("outcome", string(data.Outcome)), text)
	}
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
	of = append(of, AttrsOf(ctx)...)
	t.logger.LogAttrs(ctx, level, msg, append(of,
		slog.Int64("calls", tally.Calls), slog.Int64("executed", tally.Executed), slog.Int64("replayed", tally.Replayed),
		slog.Int64("failed", tally.Failed), seconds("duration", took))...)
}

// TraceRetried logs tool_call_retried at Info.
func (t *SlogTracer) TraceRetried(ctx context.Context, data RetriedData) {
	t.log(ctx, slog.LevelInfo, "tool_call_retried", data.CallData,
		slog.Int("attempt", data.Attempt), slog.Bool("outcome_unknown", data.Unknown),
		seconds("delay", data.Delay), slog.String("error", wire.LogText(data.Err)))
}

// TraceReset logs tool_call_reset at Warn, with the operator's reason.
func (t *SlogTracer) TraceReset(ctx context.Context, data ResetData) {
	t.log(ctx, slog.LevelWarn, "tool_call_reset", data.CallData,
		slog.String("reason", data.Reason), slog.String("actor", data.Actor), slog.Bool("freed", data.Freed), slog.Bool("audited", data.Audited))
}

// TraceSwept logs tool_dedup_swept at Debug, at Warn when it failed. A sweep whose
// context was cancelled, as a Sweeper's is when its process shuts down, did not fail.
func (t *SlogTracer) TraceSwept(ctx context.Context, data SweptData) {
	level := slog.LevelDebug
	failed := errors.Join(data.Err, data.StatsErr)
	if failed != nil && !errors.Is(ctx.Err(), context.Canceled) {
		level = slog.LevelWarn
	}
	t.logger.LogAttrs(ctx, level, "tool_dedup_swept",
		slog.Int64("expired", data.Expired), slog.Int64("forgotten", data.Forgotten), slog.Int("batches", data.Batches),
		seconds("duration", data.Duration), slog.String("error", wire.LogText(failed)))
}

// TraceExternal logs tool_effect_parked at Warn, tool_effect_twice at Error, and
// tool_effect_… of every other step at Debug, but for what a person has resolved, which is
// at Warn, and an unknown outcome, at Info.
func (t *SlogTracer) TraceExternal(ctx context.Context, data ExternalData) {
	level := slog.LevelDebug
	switch data.Step {
	case ExternalTwice:
		level = slog.LevelError
	case ExternalParked, ExternalResolved:
		level = slog.LevelWarn
	case ExternalUnknown:
		level = slog.LevelInfo
	}
	t.log(ctx, level, "tool_effect_"+string(data.Step), data.CallData,
		slog.Int64("fence", data.Fence), slog.String("ref", data.Ref), slog.String("note", data.Note))
}

// seconds is a duration in seconds, under a name that ends in the unit: a handler for
// JSON writes a time.Duration as a bare number of nanoseconds.
func seconds(name string, d time.Duration) slog.Attr {
	return slog.Float64(name+"_seconds", d.Round(time.Microsecond).Seconds())
}
