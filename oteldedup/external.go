package oteldedup

import (
	"context"
	"errors"

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
		pool := x.Deduper().Pool()
		for state, page := range map[string]func(after external.Operation) ([]external.Operation, error){
			"open": func(after external.Operation) ([]external.Operation, error) {
				return x.Open(ctx, pool, external.List{After: after, Limit: 1})
			},
			"parked": func(after external.Operation) ([]external.Operation, error) {
				return x.Parked(ctx, pool, external.List{After: after, Limit: 100})
			},
		} {
			seconds, err := oldest(page)
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
func oldest(page func(after external.Operation) ([]external.Operation, error)) (float64, error) {
	for last := (external.Operation{}); ; {
		ops, err := page(last)
		if err != nil || len(ops) == 0 {
			return 0, err
		}
		for _, op := range ops {
			switch op.State {
			case external.Parked:
				return op.Now.Sub(op.ChangedAt).Seconds(), nil
			case external.Done: // which has happened twice
				last = op
			default:
				return op.Now.Sub(op.CreatedAt).Seconds(), nil
			}
		}
	}
}
