package way

import (
	"context"
	"errors"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/oteldedup"
)

// DoOTel is [dedup.Do] with oteldedup, and with every call sampled.
func DoOTel() Way { return doOTelWith("do-otel", "dedup.Do, OTel, all sampled", 1) }

// DoOTelTenth is [DoOTel] with a tenth of the calls sampled.
func DoOTelTenth() Way { return doOTelWith("do-otel-tenth", "dedup.Do, OTel, a tenth sampled", 0.1) }

// DoOTelMetrics is [DoOTel] with no call sampled.
func DoOTelMetrics() Way { return doOTelWith("do-otel-metrics", "dedup.Do, OTel, none sampled", 0) }

// doOTelWith samples a part of the calls. Spans are batched for an exporter that drops them,
// and metrics wait for a reader that does not come.
func doOTelWith(name, title string, sampled float64) Way {
	return Way{
		Name: name, Title: title, Batch: 1, Replays: true, OneKey: true,
		Prepare: createRecords,
		Open: func(ctx context.Context, env Env) (Session, error) {
			sampler := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(sampled))
			traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(dropped{}))
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
