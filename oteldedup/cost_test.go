package oteldedup_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/oteldedup"
)

// maxAllocs is the most allocations of a call that is not sampled.
const maxAllocs = 12

func TestAllocations(t *testing.T) { //nolint:paralleltest // testing.AllocsPerRun counts all goroutines' allocations
	tracer := sampling(t, sdktrace.NeverSample())
	ctx := t.Context()
	for _, outcome := range []dedup.Outcome{dedup.OutcomeExecuted, dedup.OutcomeReplayed} {
		allocs := testing.AllocsPerRun(1000, func() { traceCall(ctx, tracer, "add_note", outcome) })
		t.Logf("%s: %.0f allocations", outcome, allocs)
		require.LessOrEqual(t, allocs, float64(maxAllocs), outcome)
	}
}

// BenchmarkCall measures the cost that a Tracer adds to a call, with an exporter that drops spans.
func BenchmarkCall(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"Unsampled": sdktrace.NeverSample(), "Sampled": sdktrace.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			tracer, ctx := sampling(b, sampler), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				traceCall(ctx, tracer, "add_note", dedup.OutcomeExecuted)
			}
		})
	}
}

// sampling returns a Tracer whose spans are dropped.
func sampling(tb testing.TB, sampler sdktrace.Sampler) *oteldedup.Tracer {
	tb.Helper()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(dropped{}))
	tb.Cleanup(func() { require.NoError(tb, traces.Shutdown(context.WithoutCancel(tb.Context()))) })
	tracer, err := oteldedup.New(&oteldedup.Options{TracerProvider: traces, MeterProvider: newMetrics(tb).provider})
	require.NoError(tb, err)
	return tracer
}

// dropped is an exporter that drops spans.
type dropped struct{}

func (dropped) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (dropped) Shutdown(context.Context) error                             { return nil }
