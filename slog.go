package dedup

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// NewSlogTracer returns a tracer that writes to logger. A nil logger means slog.Default at the time
// of the call. Each replay is one line with the message "tool_call_deduplicated" and the attributes
// tool, scope, key_hash, created_at, age_seconds, waited_seconds, recovered and refused: alert on
// its rate. The replays of a [DoBatch] are together one line "tool_batch_deduplicated" with the
// attributes calls, executed, replayed, failed and duration_seconds, and with tool and scope if all
// its calls share them. Their own lines are at Debug. Times are in seconds.
//
//	Error  a broken effect, a table that cannot decide races
//	Warn   a key reused, an outcome unknown, attempts exhausted, a reset, a resolved record,
//	       an erasure, a sweep that failed
//	Info   a replay, a batch with replays, a retry, an expired call
//	Debug  an executed call, a call that failed otherwise, a batch without replays, a
//	       replay in a batch, a sweep, also one that its cancelled context ended
//
// An event of another package is logged with the line that its method LogLine returns.
//
// The tracer does not sample. If a line for each replay is too much, raise the logger's level, or
// give the logger a handler that samples the message.
//
// Every line of a call also has the attributes of [WithAttrs]. Keys, arguments and results are
// never logged; a key's hash is. A server's error is logged with its SQLSTATE, routine and
// constraint, but without its message, which may quote values. Other errors of an effect are logged
// with their text: keep values out of it.
func NewSlogTracer(logger *slog.Logger) Tracer {
	if logger == nil {
		logger = slog.Default()
	}
	return &slogTracer{logger}
}

type slogTracer struct{ logger *slog.Logger }

func (t *slogTracer) TraceCallStart(ctx context.Context, _ CallData) context.Context { return ctx }

func (t *slogTracer) TraceCallEnd(ctx context.Context, data CallEndData) {
	write := func(level slog.Level, msg string, attrs ...slog.Attr) {
		t.log(ctx, level, msg, data.CallData, attrs...)
	}
	createdAt, age, waited := slog.Time("created_at", data.CreatedAt), seconds("age", data.Age), seconds("waited", data.Waited)
	text := slog.String("error", wire.LogText(data.Err))
	switch data.Outcome {
	case OutcomeExecuted, OutcomeRefused:
		write(slog.LevelDebug, "tool_call_executed", createdAt, seconds("duration", data.Duration), waited,
			slog.Int("attempts", data.Attempts), slog.Bool("refused", data.Outcome == OutcomeRefused))
	case OutcomeReplayed, OutcomeRefusalReplayed, OutcomeRecovered:
		level := slog.LevelInfo
		if data.Func == "DoBatch" {
			level = slog.LevelDebug
		}
		write(level, "tool_call_deduplicated", createdAt, age, waited,
			slog.Bool("recovered", data.Outcome == OutcomeRecovered), slog.Bool("refused", data.Err != nil))
	case OutcomeKeyReused:
		var changed []string
		if reused, ok := errors.AsType[*Error](data.Err); ok {
			changed = reused.Changed
		}
		write(slog.LevelWarn, "tool_call_key_reused", createdAt, age, slog.Any("changed", changed))
	case OutcomeExpired:
		write(slog.LevelInfo, "tool_call_expired", createdAt, age)
	case OutcomeUnknown, OutcomeExhausted:
		write(slog.LevelWarn, "tool_call_"+string(data.Outcome), slog.Int("attempts", data.Attempts), text)
	case OutcomeBroken, OutcomeSchema:
		write(slog.LevelError, "tool_call_"+string(data.Outcome), text)
	default:
		write(slog.LevelDebug, "tool_call_failed", slog.String("outcome", string(data.Outcome)), text)
	}
}

func (t *slogTracer) TraceEvent(ctx context.Context, event Event) {
	write := func(level slog.Level, msg string, attrs ...slog.Attr) {
		t.log(ctx, level, msg, event.about(), attrs...)
	}
	switch e := event.(type) {
	case RetriedData:
		write(slog.LevelInfo, "tool_call_retried", slog.Int("attempt", e.Attempt), slog.Bool("outcome_unknown", e.Unknown),
			seconds("delay", e.Delay), slog.String("error", wire.LogText(e.Err)))
	case BatchData:
		level, msg := slog.LevelDebug, "tool_batch_executed"
		if e.Replayed > 0 {
			level, msg = slog.LevelInfo, "tool_batch_deduplicated"
		}
		write(level, msg, slog.Int64("calls", e.Calls), slog.Int64("executed", e.Executed), slog.Int64("replayed", e.Replayed),
			slog.Int64("failed", e.Failed), seconds("duration", e.Duration))
	case ChangedData:
		msg, done := "tool_call_reset", slog.Bool("freed", e.Freed)
		switch e.Func {
		case "Resolve":
			msg, done = "tool_call_resolved", slog.Bool("resolved", e.Resolved)
		case "Erase":
			msg, done = "tool_dedup_erased", slog.Group("", slog.Int64("records", e.Erased.Records), slog.Int64("effects", e.Erased.Effects), slog.Int64("reasons", e.Erased.Reasons))
		}
		write(slog.LevelWarn, msg, slog.String("reason", e.Reason), slog.String("actor", e.Actor), done, slog.Bool("audited", e.Audited))
	case SweptData:
		level, failed := slog.LevelDebug, errors.Join(e.Err, e.StatsErr)
		if failed != nil && !errors.Is(ctx.Err(), context.Canceled) { // else its process shuts down
			level = slog.LevelWarn
		}
		write(level, "tool_dedup_swept", slog.Int64("expired", e.Expired), slog.Int64("forgotten", e.Forgotten), slog.Int("batches", e.Batches),
			seconds("duration", e.Duration), slog.String("error", wire.LogText(failed)))
	case interface {
		LogLine() (slog.Level, string, []slog.Attr)
	}:
		level, msg, attrs := e.LogLine()
		write(level, msg, attrs...)
	}
}

func (t *slogTracer) log(ctx context.Context, level slog.Level, msg string, call CallData, attrs ...slog.Attr) {
	if !t.logger.Enabled(ctx, level) {
		return
	}
	all := make([]slog.Attr, 0, 4+len(call.Attrs)+len(attrs))
	oneCall := call.KeyHash != ""
	if oneCall || call.Tool != "" {
		all = append(all, slog.String("tool", call.Tool))
	}
	if oneCall || call.Scope != "" {
		all = append(all, slog.String("scope", call.Scope))
	}
	if oneCall {
		all = append(all, slog.String("key_hash", call.KeyHash))
	}
	all = append(all, call.Attrs...)
	t.logger.LogAttrs(ctx, level, msg, append(all, attrs...)...)
}

// seconds returns a duration in seconds, with the unit in its name: a handler for JSON writes a
// time.Duration as a bare number of nanoseconds.
func seconds(name string, d time.Duration) slog.Attr {
	return slog.Float64(name+"_seconds", d.Round(time.Microsecond).Seconds())
}
