package oteldedup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tooldedup/dedup"
)

// TestCalls has calls as spans below the caller's, with the effect's statement below the call. Both
// of two Tracers count them by tool and outcome. TestCallsAreSpans of internal/contract tests which
// functions report a call.
func TestCalls(t *testing.T) {
	t.Parallel()
	m, second := newTracer(t)
	o := newObserved(t, second)
	ctx, caller := o.traces.Tracer("test").Start(t.Context(), "caller")

	first, err := dedup.Do(ctx, o.d, callOf("k"), note("hello"))
	require.NoError(t, err)
	span := o.span(t, "execute_tool add_note")
	require.Equal(t, trace.SpanKindInternal, span.SpanKind())
	require.Equal(t, caller.SpanContext().SpanID(), span.Parent().SpanID())
	require.Equal(t, codes.Unset, span.Status().Code)
	require.Equal(t, "https://opentelemetry.io/schemas/1.41.0", span.InstrumentationScope().SchemaURL)
	with := attributesOf(span)
	require.NotEmpty(t, with["dedup.created_at"])
	delete(with, "dedup.created_at")
	require.Equal(t, map[string]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add_note", "gen_ai.tool.type": "function",
		"dedup.function": "Do", "dedup.key.hash": dedup.KeyHash("k"),
		"dedup.outcome": "executed",
	}, with)
	require.Equal(t, span.SpanContext().SpanID(), o.span(t, "INSERT INTO notes VALUES ($1)").Parent().SpanID())

	again, err := dedup.Do(ctx, o.d, callOf("k"), note("hello"))
	require.NoError(t, err)
	require.True(t, again.Replayed)
	with = attributesOf(o.span(t, "execute_tool add_note"))
	require.Equal(t, "replayed", with["dedup.outcome"])
	require.Equal(t, "true", with["dedup.replayed"])
	require.Equal(t, first.CreatedAt.UTC().Format("2006-01-02T15:04:05.999999999Z07:00"), with["dedup.created_at"])

	const tool = "gen_ai.tool.name=add_note"
	require.Equal(t, map[string]float64{tool: 1}, o.points(t, "dedup.replay.age"))
	require.Equal(t, map[string]float64{tool: float64(len(`"hello"`))}, o.sums(t, "dedup.result.size"))
	require.Empty(t, o.points(t, "dedup.waits"))
	require.Empty(t, o.points(t, "dedup.wait.duration"))

	// A retry is counted by the class of its SQLSTATE.
	_, err = dedup.Do(ctx, o.d, callOf("retried"), failingOnce())
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"error.type=40," + tool: 1}, o.points(t, "dedup.retries"))
	require.Equal(t, "2", attributesOf(o.span(t, "execute_tool add_note"))["dedup.attempts"])
	require.Equal(t, map[string]float64{tool: 3}, o.points(t, "dedup.call.attempts"))
	require.Equal(t, map[string]float64{tool: 4}, o.sums(t, "dedup.call.attempts"))

	// Only the first Reset frees a record, and only that is counted.
	for range 2 {
		_, err := o.d.Reset(ctx, "acme", "add_note", "k", dedup.ChangeOptions{Reason: "a test"})
		require.NoError(t, err)
	}
	require.Equal(t, map[string]float64{tool: 1}, o.points(t, "dedup.resets"))

	counted := map[string]float64{"dedup.outcome=executed," + tool: 2, "dedup.outcome=replayed," + tool: 1}
	require.Equal(t, counted, o.points(t, "dedup.calls"))
	require.Equal(t, counted, o.points(t, "dedup.call.duration"))
	require.Equal(t, counted, m.points(t, "dedup.calls"))
	for _, of := range []*metrics{o.metrics, m} {
		require.Equal(t, map[string]float64{tool: 0}, of.points(t, "dedup.calls.in_flight"))
	}
}

// TestSpanAttrs sets the attributes of the caller's context on a span, with their types.
func TestSpanAttrs(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	ctx := dedup.WithAttrs(t.Context(), slog.String("agent", "ada"), slog.Int("turn", 4), slog.Bool("test", true),
		slog.Float64("share", 0.5), slog.Duration("budget", time.Minute), slog.Group("user", "id", "u7"))
	_, err := dedup.Do(ctx, o.d, callOf("k"), note("hello"))
	require.NoError(t, err)
	span := o.span(t, "execute_tool add_note")
	for _, want := range []attribute.KeyValue{
		attribute.String("agent", "ada"), attribute.Int("turn", 4), attribute.Bool("test", true),
		attribute.Float64("share", 0.5), attribute.String("budget", "1m0s"), attribute.String("user.id", "u7"),
	} {
		require.Contains(t, span.Attributes(), want)
	}
	require.NotContains(t, o.dump(t), "ada", "a metric has none of it")
}

// TestSpanStatus compares the status and the error.type of spans with the outcomes of their calls.
func TestSpanStatus(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	do := func(call dedup.Call, effect dedup.Effect[string]) {
		_, _ = dedup.Do(t.Context(), o.d, call, effect)
	}
	fails := func(err error) dedup.Effect[string] {
		return func(context.Context, pgx.Tx) (string, error) { return "", err }
	}
	amended := callOf("k")
	amended.Args = 1
	do(callOf("k"), note("hello"))

	for _, test := range []struct {
		call      dedup.Call
		effect    dedup.Effect[string]
		outcome   dedup.Outcome
		errorType string
	}{
		{amended, nil, dedup.OutcomeKeyReused, "key_reused"},
		{callOf("fails"), fails(errors.New("no such note")), dedup.OutcomeError, "*errors.errorString"},
		{callOf("SQL"), func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return "", fmt.Errorf("dividing: %w", err)
		}, dedup.OutcomeError, "22012"},
		{callOf("refused"), fails(dedup.Final(errors.New("closed"))), dedup.OutcomeRefused, ""},
		{callOf("refused"), nil, dedup.OutcomeRefusalReplayed, ""},
		{callOf(""), nil, dedup.OutcomeInvalid, "invalid"},
	} {
		if test.effect == nil {
			test.effect = note("hello")
		}
		do(test.call, test.effect)
		span := o.span(t, "execute_tool add_note")
		with := attributesOf(span)
		require.Equal(t, string(test.outcome), with["dedup.outcome"])
		require.Equal(t, test.errorType, with["error.type"], test.outcome)
		require.Equal(t, test.errorType != "", span.Status().Code == codes.Error, test.outcome)
		require.Empty(t, span.Status().Description)
	}
}

// TestNothingInTheClear finds no arguments, results or keys in spans and metrics.
func TestNothingInTheClear(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	call := dedup.Call{Scope: "secret scope", Tool: "add_note", Key: "secret key", Args: map[string]any{"secret argument": "secret"}}
	for _, effect := range []dedup.Effect[string]{
		func(context.Context, pgx.Tx) (string, error) { return "", errors.New("a secret failure") },
		func(context.Context, pgx.Tx) (string, error) { return "a secret result", nil },
		nil,
	} {
		_, _ = dedup.Do(t.Context(), o.d, call, effect)
	}
	_, err := o.d.Reset(t.Context(), call.Scope, call.Tool, call.Key, dedup.ChangeOptions{Reason: "a secret reason"})
	require.NoError(t, err)
	calls := o.spans.Ended()
	require.NotEmpty(t, calls)
	for _, span := range calls {
		if strings.HasPrefix(span.Name(), "execute_tool") {
			require.NotContains(t, fmt.Sprint(span.Attributes(), span.Events(), span.Status(), span.Name()), "secret")
		}
	}
	require.NotContains(t, o.dump(t), "secret")
}
