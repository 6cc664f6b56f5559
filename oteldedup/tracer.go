package oteldedup

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// Options configure [New].
type Options struct {
	// TracerProvider makes the spans. Default: the global one.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. Default: the global one.
	MeterProvider metric.MeterProvider
}

// Tracer is a [dedup.Tracer] that reports to OpenTelemetry. Several Dedupers may share it.
type Tracer struct {
	spans       trace.Tracer
	meter       metric.Meter
	instruments instruments
	calls       calls
}

var (
	_ dedup.Tracer = (*Tracer)(nil)
)

const instrumentationName = "github.com/tooldedup/dedup/oteldedup"

// New returns a Tracer. A nil opts means the defaults. Make one for each MeterProvider: the
// provider keeps it, to read the calls in flight. The error is the MeterProvider's.
func New(opts *Options) (*Tracer, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	t := &Tracer{spans: o.TracerProvider.Tracer(instrumentationName, trace.WithSchemaURL(schemaURL))}
	t.meter = o.MeterProvider.Meter(instrumentationName, metric.WithSchemaURL(schemaURL))
	var err error
	if t.instruments, err = newInstruments(t.meter); err != nil {
		return nil, err
	}
	return t, t.calls.observe(t.meter)
}

// TraceCallStart starts the call's span.
func (t *Tracer) TraceCallStart(ctx context.Context, data dedup.CallData) context.Context {
	c := t.calls.start(data.Tool)
	ctx = startSpan(ctx, t.spans, c)
	return context.WithValue(ctx, t, c)
}

// TraceCallEnd counts the call and ends its span.
func (t *Tracer) TraceCallEnd(ctx context.Context, data dedup.CallEndData) {
	c, ok := ctx.Value(t).(*call)
	if !ok {
		return
	}
	t.instruments.call(ctx, c.tool, t.calls.end(c, data.Outcome), &data)
	endSpan(c, &data)
}

// TraceEvent counts an event: a wait, a retry by the class of its SQLSTATE, a freed identity, a
// step of an effect outside the database, or a sweep.
func (t *Tracer) TraceEvent(ctx context.Context, event dedup.Event) {
	i := &t.instruments
	switch e := event.(type) {
	case dedup.WaitStartData:
		i.waits.Add(ctx, 1, t.with(e.Tool, inProcessKey.Bool(e.InProcess)))
	case dedup.RetriedData:
		i.retries.Add(ctx, 1, t.with(e.Tool, errorTypeKey.String(retriedFor(&e))))
	case dedup.ChangedData:
		if e.Freed {
			i.resets.Add(ctx, 1, t.with(e.Tool))
		}
	case dedup.SweptData:
		i.swept(ctx, &e)
	case external.Event:
		i.externalSteps.Add(ctx, 1, t.with(e.Tool, externalStepKey.String(string(e.Kind))))
	}
}

// with returns the attributes of a tool's event.
func (t *Tracer) with(tool string, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(more, toolNameKey.String(t.calls.tool(tool).name))...)
}

// swept counts a sweep. A sweep whose context was cancelled, as when its process shuts down, is not
// an error. A sweep that left the table to another instance is not a success. Counts that could not
// be written do not make the sweep fail.
func (i *instruments) swept(ctx context.Context, data *dedup.SweptData) {
	if data.StatsErr != nil && !errors.Is(ctx.Err(), context.Canceled) {
		i.statsErrors.Add(ctx, 1)
	}
	i.sweptRecords.Add(ctx, data.Expired, metric.WithAttributes(sweepKindKey.String("expired")))
	i.sweptRecords.Add(ctx, data.Forgotten, metric.WithAttributes(sweepKindKey.String("forgotten")))
	switch {
	case data.Err != nil && errors.Is(ctx.Err(), context.Canceled), data.Err == nil && data.Skipped:
		return
	case data.Err != nil:
		i.sweepErrors.Add(ctx, 1)
	default:
		i.lastSweep.Record(ctx, float64(time.Now().UnixMilli())/1000)
	}
	i.sweepDuration.Record(ctx, data.Duration.Seconds())
}
