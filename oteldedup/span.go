package oteldedup

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tooldedup/dedup"
)

// startSpan starts the span of a call.
func startSpan(ctx context.Context, spans trace.Tracer, c *call) context.Context {
	start := c.tool.start
	if link, ok := ambientLink(ctx); ok {
		start = append(start[:len(start):len(start)], trace.WithLinks(link))
	}
	ctx, c.span = spans.Start(ctx, c.tool.spanName, start...)
	return ctx
}

// endSpan ends the span of a call. The span does not have the error's text, because an effect's
// error may quote arguments. Attributes that most calls share are left out: with more than eight,
// the SDK takes twice the memory to find duplicates.
func endSpan(c *call, data *dedup.CallEndData) {
	defer c.span.End()
	if !c.span.IsRecording() {
		return
	}
	with := append(make([]attribute.KeyValue, 0, 7+len(data.Attrs)),
		functionKey.String(data.Func), keyHashKey.String(data.KeyHash), outcomeKey.String(string(data.Outcome)))
	switch data.Outcome {
	case dedup.OutcomeReplayed, dedup.OutcomeRefusalReplayed:
		with = append(with, replayedKey.Bool(true))
	case dedup.OutcomeRecovered:
		with = append(with, recoveredKey.Bool(true))
	}
	if data.Attempts != 1 {
		with = append(with, attemptsKey.Int(data.Attempts))
	}
	if !data.CreatedAt.IsZero() {
		with = append(with, createdAtKey.String(data.CreatedAt.UTC().Format(time.RFC3339Nano)))
	}
	if c.tool.name == otherTools && isName(data.Tool) { // counted together, but named in the trace
		with = append(with, toolNameKey.String(data.Tool))
	}
	if failed(data) {
		with = append(with, errorTypeKey.String(failedFor(data)))
		c.span.SetStatus(codes.Error, "")
	}
	for _, a := range data.Attrs {
		with = appendAttr(with, a.Key, a.Value.Resolve())
	}
	c.span.SetAttributes(with...)
}

// appendAttr appends an attribute of the caller. The members of a group get the group's name as
// prefix. Times and durations are text.
func appendAttr(with []attribute.KeyValue, key string, value slog.Value) []attribute.KeyValue {
	switch value.Kind() {
	case slog.KindGroup:
		for _, a := range value.Group() {
			with = appendAttr(with, key+"."+a.Key, a.Value.Resolve())
		}
		return with
	case slog.KindBool:
		return append(with, attribute.Bool(key, value.Bool()))
	case slog.KindInt64:
		return append(with, attribute.Int64(key, value.Int64()))
	case slog.KindFloat64:
		return append(with, attribute.Float64(key, value.Float64()))
	default:
		return append(with, attribute.String(key, value.String()))
	}
}

// failed reports whether the call has no answer. A recorded refusal is an answer.
func failed(data *dedup.CallEndData) bool {
	switch data.Outcome {
	case dedup.OutcomeExecuted, dedup.OutcomeReplayed, dedup.OutcomeRecovered, dedup.OutcomeRefused, dedup.OutcomeRefusalReplayed:
		return false
	}
	return true
}

// failedFor returns the error.type of a call: its outcome, or for other errors the SQLSTATE or the
// Go type.
func failedFor(data *dedup.CallEndData) string {
	if data.Outcome != dedup.OutcomeError || data.Err == nil {
		return string(data.Outcome)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](data.Err); ok && isSQLState(pg.Code) {
		return pg.Code
	}
	return errorType(data.Err)
}

// retriedFor returns the error.type of a retry: the class of the SQLSTATE, such as 40 and 57.
func retriedFor(data *dedup.RetriedData) string {
	if data.Unknown {
		return string(dedup.OutcomeUnknown)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](data.Err); ok && isSQLState(pg.Code) {
		return pg.Code[:2]
	}
	return errorTypeOther
}

// isSQLState reports whether code has the form of an SQLSTATE: five digits or upper-case letters. A
// proxy's own codes are not passed on.
func isSQLState(code string) bool {
	for _, r := range code {
		if (r < '0' || r > '9') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return len(code) == 5
}
