package oteldedup_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/oteldedup"
)

// observed is a Deduper whose spans and metrics a test reads.
type observed struct {
	pool   *pgxpool.Pool
	d      *dedup.Deduper
	traces *sdktrace.TracerProvider
	spans  *tracetest.SpanRecorder
	*metrics
}

// newObserved returns one on a new database. also are further tracers.
func newObserved(t *testing.T, also ...dedup.Tracer) *observed {
	t.Helper()
	o := &observed{spans: tracetest.NewSpanRecorder(), metrics: newMetrics(t)}
	o.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(o.spans))
	o.pool = pgtest.New(t).Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = &queryTracer{o.traces.Tracer("pgx")} })
	tracer, err := oteldedup.New(&oteldedup.Options{TracerProvider: o.traces, MeterProvider: o.provider})
	require.NoError(t, err)
	o.d, err = dedup.New(o.pool, &dedup.Options{Tracer: dedup.MultiTracer(append(also, tracer)...)})
	require.NoError(t, err)
	_, err = o.pool.Exec(t.Context(), `CREATE TABLE notes (text text)`)
	require.NoError(t, err)
	return o
}

// span returns the newest ended span of a name.
func (o *observed) span(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	ended := o.spans.Ended()
	for i := range ended {
		if span := ended[len(ended)-1-i]; span.Name() == name {
			return span
		}
	}
	require.Failf(t, "no span", "%s", name)
	return nil
}

// attributesOf returns the attributes of a span as text.
func attributesOf(span sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, kv := range span.Attributes() {
		all[string(kv.Key)] = kv.Value.String()
	}
	return all
}

// metrics are the metrics of a MeterProvider.
type metrics struct {
	reader   *sdkmetric.ManualReader
	provider *sdkmetric.MeterProvider
}

func newMetrics(t testing.TB) *metrics {
	t.Helper()
	m := &metrics{reader: sdkmetric.NewManualReader()}
	m.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(m.reader))
	t.Cleanup(func() { require.NoError(t, m.provider.Shutdown(context.WithoutCancel(t.Context()))) })
	return m
}

// points returns an instrument's values by attributes: of a counter or gauge its value, of a
// histogram the number of measurements.
func (m *metrics) points(t *testing.T, name string) map[string]float64 {
	t.Helper()
	points, _ := m.read(t, name)
	return points
}

// sums returns the sums of a histogram by attributes.
func (m *metrics) sums(t *testing.T, name string) map[string]float64 {
	t.Helper()
	_, sums := m.read(t, name)
	return sums
}

func (m *metrics) read(t *testing.T, name string) (points, sums map[string]float64) {
	t.Helper()
	points, sums = map[string]float64{}, map[string]float64{}
	var all metricdata.ResourceMetrics
	require.NoError(t, m.reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, one := range scope.Metrics {
			if one.Name != name {
				continue
			}
			switch data := one.Data.(type) {
			case metricdata.Sum[int64]:
				numbers(points, data.DataPoints)
			case metricdata.Gauge[int64]:
				numbers(points, data.DataPoints)
			case metricdata.Gauge[float64]:
				numbers(points, data.DataPoints)
			case metricdata.Histogram[int64]:
				histograms(points, sums, data.DataPoints)
			case metricdata.Histogram[float64]:
				histograms(points, sums, data.DataPoints)
			default:
				require.Failf(t, "not known", "%T", data)
			}
		}
	}
	return points, sums
}

func numbers[N int64 | float64](into map[string]float64, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		into[p.Attributes.Encoded(attribute.DefaultEncoder())] = float64(p.Value)
	}
}

func histograms[N int64 | float64](counts, sums map[string]float64, points []metricdata.HistogramDataPoint[N]) {
	for _, p := range points {
		of := p.Attributes.Encoded(attribute.DefaultEncoder())
		counts[of], sums[of] = float64(p.Count), float64(p.Sum)
	}
}

// queryTracer makes a span of each statement.
type queryTracer struct{ spans trace.Tracer }

type queryKey struct{}

func (q *queryTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	ctx, span := q.spans.Start(ctx, data.SQL)
	return context.WithValue(ctx, queryKey{}, span)
}

// TraceQueryEnd is also called by pgx for rows of a batch, without a start.
func (q *queryTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if span, ok := ctx.Value(queryKey{}).(trace.Span); ok {
		span.End()
	}
}

// note returns an effect that writes a note.
func note(text string) dedup.Effect[string] {
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, `INSERT INTO notes VALUES ($1)`, text)
		return text, err
	}
}

func callOf(key string) dedup.Call {
	return dedup.Call{Scope: "acme", Tool: "add_note", Key: key}
}

// dump returns all measurements as text.
func (m *metrics) dump(t *testing.T) string {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, m.reader.Collect(t.Context(), &all))
	text, err := json.Marshal(all.ScopeMetrics)
	require.NoError(t, err)
	return string(text)
}
