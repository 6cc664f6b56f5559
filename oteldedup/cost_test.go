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
	tracer := unsampled(t)
	ctx := t.Context()
	for _, outcome := range []dedup.Outcome{dedup.OutcomeExecuted, dedup.OutcomeReplayed} {
		allocs := testing.AllocsPerRun(1000, func() { traceCall(ctx, tracer, "add_note", outcome) })
		t.Logf("%s: %.0f allocations", outcome, allocs)
		require.LessOrEqual(t, allocs, float64(maxAllocs), outcome)
	}
}

// unsampled returns a Tracer that samples no call.
func unsampled(t *testing.T) *oteldedup.Tracer {
	t.Helper()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()), sdktrace.WithBatcher(dropped{}))
	t.Cleanup(func() { require.NoError(t, traces.Shutdown(context.WithoutCancel(t.Context()))) })
	tracer, err := oteldedup.New(&oteldedup.Options{TracerProvider: traces, MeterProvider: newMetrics(t).provider})
	require.NoError(t, err)
	return tracer
}

// dropped is an exporter that drops spans.
type dropped struct{}

func (dropped) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (dropped) Shutdown(context.Context) error                             { return nil }
