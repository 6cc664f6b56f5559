package way

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/oteldedup"
)

// call is the call with the key.
func call(key string) dedup.Call {
	return dedup.Call{Scope: Scope, Tool: Tool, Key: key, Args: args{Ref: key}}
}

// book is the effect as a function.
func book(ref string) dedup.Effect[row] {
	return func(ctx context.Context, tx pgx.Tx) (row, error) { return insert(ctx, tx, ref) }
}

// library makes calls with a Deduper on the session's pool.
func library(make func(ctx context.Context, d *dedup.Deduper, keys []string) error) connect {
	return func(_ context.Context, s *Session) (caller, error) {
		d, err := dedup.New(s.Pool, nil)
		return func(ctx context.Context, keys []string) error { return make(ctx, d, keys) }, err
	}
}

func do(ctx context.Context, d *dedup.Deduper, keys []string) error {
	_, err := dedup.Do(ctx, d, call(keys[0]), book(keys[0]))
	return err
}

// doLookFirst takes one more trip for a first call, and one less for a replay.
func doLookFirst(ctx context.Context, d *dedup.Deduper, keys []string) error {
	c := call(keys[0])
	c.LookFirst = true
	_, err := dedup.Do(ctx, d, c, book(keys[0]))
	return err
}

// doTxInBeginFunc calls in a transaction of the library without other statements.
func doTxInBeginFunc(ctx context.Context, d *dedup.Deduper, keys []string) error {
	return d.BeginFunc(ctx, func(tx pgx.Tx) error {
		_, err := dedup.DoTx(ctx, d, tx, call(keys[0]), book(keys[0]))
		return err
	})
}

// doStatement sends the effect with the look-up.
func doStatement(ctx context.Context, d *dedup.Deduper, keys []string) error {
	_, err := dedup.DoStatement[row](ctx, d, call(keys[0]), dedup.SQL(effect, keys[0]))
	return err
}

// doBatch makes all calls in two trips and one transaction.
func doBatch(ctx context.Context, d *dedup.Deduper, keys []string) error {
	calls := func(yield func(dedup.StatementCall) bool) {
		for _, key := range keys {
			if !yield(dedup.StatementCall{Call: call(key), Statement: dedup.SQL(effect, key)}) {
				return
			}
		}
	}
	answered := 0
	for outcome := range dedup.DoBatch[row](ctx, d, calls, &dedup.BatchOptions{Size: len(keys)}) {
		if outcome.Err != nil {
			return fmt.Errorf("call %d of the batch: %w", outcome.Index, outcome.Err)
		}
		answered++
	}
	if answered != len(keys) {
		return fmt.Errorf("%d of %d calls were answered", answered, len(keys))
	}
	return nil
}

// doOTel is do with oteldedup and a share of sampled calls. Spans are batched for an exporter that
// drops them, and metrics have no reader.
func doOTel(sampled float64) connect {
	return func(_ context.Context, s *Session) (caller, error) {
		sampler := sdktrace.ParentBased(sdktrace.TraceIDRatioBased(sampled))
		traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(dropped{}))
		metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
		s.atEnd(func() error {
			ctx := context.Background()
			return errors.Join(traces.Shutdown(ctx), metrics.Shutdown(ctx))
		})
		tracer, err := oteldedup.New(&oteldedup.Options{TracerProvider: traces, MeterProvider: metrics})
		if err != nil {
			return nil, err
		}
		d, err := dedup.New(s.Pool, &dedup.Options{Tracer: tracer})
		return func(ctx context.Context, keys []string) error { return do(ctx, d, keys) }, err
	}
}

// dropped is an exporter that drops its spans.
type dropped struct{}

func (dropped) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (dropped) Shutdown(context.Context) error                             { return nil }
