package oteldedup_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tooldedup/dedup"
)

// A call of DoTx is a span below that of the caller's transaction.
func TestDoTx(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	ctx, caller := o.traces.Tracer("test").Start(t.Context(), "caller")
	require.NoError(t, pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		_, err := dedup.DoTx(ctx, o.d, tx, callOf("k"), note("hello"))
		return err
	}))
	span := o.span(t, "execute_tool add_note")
	require.Equal(t, caller.SpanContext().SpanID(), span.Parent().SpanID())
	require.Equal(t, "DoTx", attributesOf(span)["dedup.function"])
	require.Equal(t, span.SpanContext().SpanID(), o.span(t, "INSERT INTO notes VALUES ($1)").Parent().SpanID())
}

// Every call of those that share a transaction is a span, and is counted.
func TestDoBatch(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	batch := func(keys ...string) {
		calls := make([]dedup.StatementCall, len(keys))
		for i, key := range keys {
			calls[i] = dedup.StatementCall{Call: callOf(key), Statement: dedup.Statement{SQL: `INSERT INTO notes VALUES ($1) RETURNING text`, Args: []any{key}}}
		}
		for out := range dedup.DoBatch[struct{ Text string }](t.Context(), o.d, slices.Values(calls), nil) {
			require.NoError(t, out.Err)
		}
	}
	batch("a", "b")
	batch("b", "c")
	require.Equal(t, map[string]float64{
		"dedup.outcome=executed,gen_ai.tool.name=add_note": 3,
		"dedup.outcome=replayed,gen_ai.tool.name=add_note": 1,
	}, o.points(t, "dedup.calls"))
	require.Len(t, o.calls(), 4)
}

// calls are the spans of calls that have ended.
func (o *observed) calls() (calls []sdktrace.ReadOnlySpan) {
	for _, span := range o.spans.Ended() {
		if span.Name() == "execute_tool add_note" {
			calls = append(calls, span)
		}
	}
	return calls
}

// A call whose effect panics is not in flight any more, and its span has ended.
func TestPanic(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	require.Panics(t, func() {
		_, _ = dedup.Do(t.Context(), o.d, callOf("k"), func(context.Context, pgx.Tx) (string, error) { panic("no") })
	})
	require.Equal(t, map[string]float64{"gen_ai.tool.name=add_note": 0}, o.points(t, "dedup.calls.in_flight"))
	require.Equal(t, map[string]float64{"dedup.outcome=error,gen_ai.tool.name=add_note": 1}, o.points(t, "dedup.calls"))
	require.Len(t, o.calls(), 1)
}

// Calls of many goroutines are all counted while somebody reads the metrics.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	const goroutines, each = 8, 25
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range each {
				_, err := dedup.Do(t.Context(), o.d, callOf(fmt.Sprint(g, " ", i)), note("hello"))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		require.LessOrEqual(t, o.points(t, "dedup.calls.in_flight")["gen_ai.tool.name=add_note"], float64(goroutines))
	}
	all.Wait()
	require.Equal(t, map[string]float64{"gen_ai.tool.name=add_note": 0}, o.points(t, "dedup.calls.in_flight"))
	require.Equal(t, map[string]float64{"dedup.outcome=executed,gen_ai.tool.name=add_note": goroutines * each}, o.points(t, "dedup.calls"))
	require.Len(t, o.calls(), goroutines*each)
}
