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

// startSpan begins the span of a call.
func startSpan(ctx context.Context, spans trace.Tracer, c *call) context.Context {
	start := c.tool.start
	if link, ok := ambientLink(ctx); ok {
		start = append(start[:len(start):len(start)], trace.WithLinks(link))
	}
	ctx, c.span = spans.Start(ctx, c.tool.spanName, start...)
	return ctx
}

// endSpan ends it. Neither the error nor its text is part of a span: the effect's own may
// have arguments in it. What is so of most calls is left out: with more than eight attributes,
// those of the start included, the SDK takes twice the memory to look for doubles.
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
		with = append(with, firstAtKey.String(data.CreatedAt.UTC().Format(time.RFC3339Nano)))
	}
	if c.tool.name == otherTools && isName(data.Tool) { // counted together, and not lost in a trace
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

// appendAttr appends an attribute of the caller's. The members of a group have the group's
// name before theirs, and times and durations are text.
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

// failed reports whether the call has no answer. A refusal is one, as recorded as a result.
func failed(data *dedup.CallEndData) bool {
	switch data.Outcome {
	case dedup.OutcomeExecuted, dedup.OutcomeReplayed, dedup.OutcomeRecovered, dedup.OutcomeRefused, dedup.OutcomeRefusalReplayed:
		return false
	}
	return true
}

// failedFor is the error.type of a call: its outcome, or for other errors the SQLSTATE or
// the type in Go.
func failedFor(data *dedup.CallEndData) string {
	if data.Outcome != dedup.OutcomeError || data.Err == nil {
		return string(data.Outcome)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](data.Err); ok && isSQLState(pg.Code) {
		return pg.Code
	}
	return errorType(data.Err)
}

// retriedFor is the error.type of a retry: the class of the SQLSTATE, such as 40 and 57.
func retriedFor(data *dedup.RetriedData) string {
	if data.Unknown {
		return string(dedup.OutcomeUnknown)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](data.Err); ok && isSQLState(pg.Code) {
		return pg.Code[:2]
	}
	return errorTypeOther
}

// isSQLState reports whether code has the form of an SQLSTATE: five digits or upper-case
// letters. What a proxy makes up is not passed on.
func isSQLState(code string) bool {
	for _, r := range code {
		if (r < '0' || r > '9') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return len(code) == 5
}
