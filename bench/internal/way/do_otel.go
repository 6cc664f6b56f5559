package way

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/oteldedup"
)

// DoOTel is [dedup.Do] with oteldedup, and a part of the calls sampled, which the title says. Spans are
// batched for an exporter that drops them, and metrics wait for a reader that does not come.
func DoOTel(name, part string, sampled float64) Way {
	return Way{
		Name: name, Title: "dedup.Do, OTel, " + part + " sampled", Batch: 1, Replays: true, OneKey: true, Prepare: createRecords,
		Open: onPool(func(_ context.Context, _ Env, pool *pgxpool.Pool) (caller, func() error, error) {
			sampler := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(sampled))
			traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(dropped{}))
			metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
			end := func() error {
				ctx := context.Background()
				return errors.Join(traces.Shutdown(ctx), metrics.Shutdown(ctx))
			}
			tracer, err := oteldedup.New(&oteldedup.Options{TracerProvider: traces, MeterProvider: metrics})
			if err != nil {
				return nil, end, err
			}
			d, err := dedup.New(pool, &dedup.Options{Tracer: tracer})
			return func(ctx context.Context, keys []string) error {
				_, err := dedup.Do(ctx, d, call(keys[0]), book(keys[0]))
				return err
			}, end, err
		}),
	}
}

// dropped is an exporter that drops what it gets.
type dropped struct{}

func (dropped) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (dropped) Shutdown(context.Context) error                             { return nil }
