package oteldedup

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/tooldedup/dedup"
)

// instruments are the metrics to which events are written. Calls in flight are read instead; see
// [calls.observe].
type instruments struct {
	calls, waits, retries, resets, externalSteps metric.Int64Counter

	duration, waitDuration, replayAge metric.Float64Histogram
	attempts, resultSize              metric.Int64Histogram

	sweepDuration             metric.Float64Histogram
	sweptRecords, sweepErrors metric.Int64Counter
	statsErrors               metric.Int64Counter
	lastSweep                 metric.Float64Gauge
}

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// The boundaries of the histograms. A view of the MeterProvider replaces them.
var (
	// The semantic conventions' boundaries for a database's operations, and a minute.
	callSeconds  = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, minute}
	ageSeconds   = []float64{1, 10, minute, 10 * minute, hour, 6 * hour, day, 3 * day, 7 * day, 30 * day}
	sweepSeconds = []float64{0.01, 0.1, 1, 10, minute, 10 * minute, hour}
	attempts     = []float64{1, 2, 3, 5, 10}
	sizes        = []float64{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20}
)

func newInstruments(meter metric.Meter) (instruments, error) {
	m := maker{meter: meter}
	return instruments{
		calls:    m.counter("dedup.calls", "{call}", "Calls that have come to an end, by what came of them."),
		duration: m.seconds("dedup.call.duration", callSeconds, "How long calls took, waiting for twins included."),
		attempts: m.histogram("dedup.call.attempts", "{attempt}", attempts, "How many transactions a call took."),

		waits:        m.counter("dedup.waits", "{wait}", "Waits for a twin that have begun."),
		waitDuration: m.seconds("dedup.wait.duration", callSeconds, "How long calls that waited for a twin did so."),
		retries:      m.counter("dedup.retries", "{retry}", "Attempts that followed a fault of the database, by the class of its SQLSTATE."),
		replayAge:    m.seconds("dedup.replay.age", ageSeconds, "How old the record was that a repeated call met."),
		resultSize:   m.histogram("dedup.result.size", "By", sizes, "How long the recorded results are."),

		resets:        m.counter("dedup.resets", "{reset}", "Identities that an operator freed."),
		externalSteps: m.counter("dedup.external.steps", "{step}", "Steps of effects outside the database."),

		sweepDuration: m.seconds("dedup.sweep.duration", sweepSeconds, "How long sweeps took."),
		sweptRecords:  m.counter("dedup.sweep.records", "{record}", "Records that sweeps have emptied (expired) or deleted (forgotten)."),
		sweepErrors:   m.counter("dedup.sweep.errors", "{sweep}", "Sweeps that failed."),
		statsErrors:   m.counter("dedup.stats.errors", "{write}", "Times that a Sweeper could not write its counts of calls, and kept them."),
		lastSweep:     m.gauge("dedup.sweep.last_success.timestamp", "s", "When a sweep of this process last came to its end, in Unix time."),
	}, errors.Join(m.errs...)
}

// maker makes instruments and collects the errors.
type maker struct {
	meter metric.Meter
	errs  []error
}

func (m *maker) counter(name, unit, what string) metric.Int64Counter {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
	m.errs = append(m.errs, err)
	return c
}

func (m *maker) gauge(name, unit, what string) metric.Float64Gauge {
	g, err := m.meter.Float64Gauge(name, metric.WithUnit(unit), metric.WithDescription(what))
	m.errs = append(m.errs, err)
	return g
}

func (m *maker) histogram(name, unit string, bounds []float64, what string) metric.Int64Histogram {
	h, err := m.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
	m.errs = append(m.errs, err)
	return h
}

func (m *maker) seconds(name string, bounds []float64, what string) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
	m.errs = append(m.errs, err)
	return h
}

// call counts a call that has ended. Its durations have the call's trace as exemplar. The other
// histograms have none: each exemplar costs the call another reading of the clock.
func (i *instruments) call(ctx context.Context, of *tool, with *attributes, data *dedup.CallEndData) {
	i.duration.Record(ctx, data.Duration.Seconds(), with.record...)
	if data.Waited > 0 {
		i.waitDuration.Record(ctx, data.Waited.Seconds(), of.record...)
	}
	ctx = context.Background()
	i.calls.Add(ctx, 1, with.add...)
	if data.Attempts > 0 {
		i.attempts.Record(ctx, int64(data.Attempts), of.record...)
	}
	switch data.Outcome {
	case dedup.OutcomeExecuted, dedup.OutcomeRefused:
		i.resultSize.Record(ctx, int64(data.ResultBytes), of.record...)
	case dedup.OutcomeReplayed, dedup.OutcomeRefusalReplayed, dedup.OutcomeExpired:
		i.replayAge.Record(ctx, data.Age.Seconds(), of.record...)
	}
}
