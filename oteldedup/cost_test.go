package oteldedup_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/oteldedup"
)

// maxAllocs is how many allocations a call that is not sampled may cost.
const maxAllocs = 12

func TestAllocations(t *testing.T) { //nolint:paralleltest // testing.AllocsPerRun counts those of all goroutines
	call := unsampled(t)
	for _, outcome := range []dedup.Outcome{dedup.OutcomeExecuted, dedup.OutcomeReplayed} {
		allocs := testing.AllocsPerRun(1000, func() { call(outcome) })
		t.Logf("%s: %.0f allocations", outcome, allocs)
		require.LessOrEqual(t, allocs, float64(maxAllocs), outcome)
	}
}

// BenchmarkCall is what a Tracer adds to a call, with an exporter that drops the spans.
func BenchmarkCall(b *testing.B) {
	b.Run("Unsampled", func(b *testing.B) {
		call := unsampled(b)
		b.ReportAllocs()
		for b.Loop() {
			call(dedup.OutcomeExecuted)
		}
	})
	b.Run("Sampled", func(b *testing.B) {
		call := events(b, sdktrace.AlwaysSample())
		b.ReportAllocs()
		for b.Loop() {
			call(dedup.OutcomeExecuted)
		}
	})
}

func unsampled(tb testing.TB) func(dedup.Outcome) {
	tb.Helper()
	return events(tb, sdktrace.NeverSample())
}

// events returns a function with the events of a call.
func events(tb testing.TB, sampler sdktrace.Sampler) func(dedup.Outcome) {
	tb.Helper()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(dropped{}))
	tb.Cleanup(func() { require.NoError(tb, traces.Shutdown(context.WithoutCancel(tb.Context()))) })
	tracer, err := oteldedup.New(&oteldedup.Options{
		TracerProvider: traces,
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
	})
	require.NoError(tb, err)
	data := dedup.CallData{Func: "Do", Scope: "acme", Tool: "add_note", Key: "k", KeyHash: dedup.KeyHash("k")}
	ctx := tb.Context()
	return func(outcome dedup.Outcome) {
		ctx := tracer.TraceCallStart(ctx, data)
		tracer.TraceCallEnd(ctx, dedup.CallEndData{
			CallData: data, Outcome: outcome, Attempts: 1, Duration: 1000, Age: 1000, ResultBytes: 100,
		})
	}
}

// dropped is an exporter that drops what it gets.
type dropped struct{}

func (dropped) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (dropped) Shutdown(context.Context) error                             { return nil }
