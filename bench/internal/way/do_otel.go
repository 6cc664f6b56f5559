package way

import (
	"context"
	"errors"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/oteldedup"
)

// DoOTel is [dedup.Do] with oteldedup: every call is sampled, spans are batched for an
// exporter that drops them, and metrics wait for a reader that does not come.
func DoOTel() Way {
	return Way{
		Name: "do-otel", Title: "dedup.Do, OpenTelemetry", Batch: 1, Replays: true, OneKey: true,
		Prepare: createRecords,
		Open: func(ctx context.Context, env Env) (Session, error) {
			traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithBatcher(dropped{}))
			metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
			tracer, err := oteldedup.New(&oteldedup.Options{TracerProvider: traces, MeterProvider: metrics})
			if err != nil {
				return nil, err
			}
			s, err := newDeduper(ctx, env, &dedup.Options{Tracer: tracer})
			if err != nil {
				return nil, errors.Join(err, traces.Shutdown(ctx), metrics.Shutdown(ctx))
			}
			return doOTel{do{s}, traces, metrics}, nil
		},
	}
}

// dropped is an exporter that drops what it gets.
type dropped struct{}

func (dropped) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (dropped) Shutdown(context.Context) error                             { return nil }

type doOTel struct {
	do
	traces  *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
}

func (s doOTel) Close() error {
	ctx := context.Background()
	return errors.Join(s.do.Close(), s.traces.Shutdown(ctx), s.metrics.Shutdown(ctx))
}
