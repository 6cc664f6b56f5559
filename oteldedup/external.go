package oteldedup

import (
	"context"
	"errors"
	"iter"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tooldedup/dedup/external"
)

// ObserveExternal has the meter ask, whenever metrics are read, how long the oldest effect
// outside of the database has been open, and how long the oldest one has been parked: two looks
// at the database. Where it cannot be read there is no value. The error is one of the
// MeterProvider.
func (t *Tracer) ObserveExternal(x *external.Tools) error {
	age, err := t.meter.Float64ObservableGauge("dedup.external.open.age.max", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest effect outside of the database has had no answer or been parked, 0 where there is none."))
	if err != nil {
		return err
	}
	_, err = t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		var all error
		for state, ops := range map[string]iter.Seq2[external.Operation, error]{"open": x.Open(ctx, 0), "parked": x.Parked(ctx)} {
			seconds, err := oldest(ops)
			if err == nil {
				o.ObserveFloat64(age, seconds, metric.WithAttributes(attribute.String("dedup.external.state", state)))
			}
			all = errors.Join(all, err)
		}
		return all
	}, age)
	return err
}

// oldest is how long the first operation of a list has had no answer.
func oldest(ops iter.Seq2[external.Operation, error]) (float64, error) {
	for op, err := range ops {
		switch {
		case err != nil:
			return 0, err
		case op.State == external.Parked:
			return op.Now.Sub(op.ChangedAt).Seconds(), nil
		case op.State != external.Done: // which has happened twice
			return op.Now.Sub(op.CreatedAt).Seconds(), nil
		}
	}
	return 0, nil
}
