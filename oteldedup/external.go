package oteldedup

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/inspect"
)

// ObserveExternal makes the meter read the database whenever metrics are read. It reports the age
// of the oldest effect outside the database that is open, and of the oldest that is parked. It
// also reports how many broken records and parked or doubled effects wait for an operator. This
// takes four queries. If the database cannot be read, there is no value. The error is the
// MeterProvider's.
func (t *Tracer) ObserveExternal(x *external.Tools) error {
	age, err := t.meter.Float64ObservableGauge("dedup.external.open.age.max", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest effect outside the database has had no answer or been parked, 0 where there is none."))
	if err != nil {
		return err
	}
	stuck, err := t.meter.Int64ObservableGauge("dedup.stuck", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that wait for a person: broken records, and effects outside the database that are parked or happened twice. At most 1,000 of each are counted."))
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
		return errors.Join(all, t.observeStuck(ctx, o, stuck, x))
	}, age, stuck)
	return err
}

// observeStuck reports the needs for an operator by tool. A tool without any has no value.
func (t *Tracer) observeStuck(ctx context.Context, o metric.Observer, stuck metric.Int64ObservableGauge, x *external.Tools) error {
	db := inspect.Database{D: x.Deduper(), Tools: x, Timeout: stuckTimeout}
	needs, err := db.Stuck(ctx, 1000)
	counts := map[[2]string]int64{}
	for _, n := range needs {
		counts[[2]string{t.calls.tool(n.Tool).name, n.Kind}]++
	}
	for of, n := range counts {
		o.ObserveInt64(stuck, n, metric.WithAttributes(toolNameKey.String(of[0]), attribute.String("dedup.stuck.kind", of[1])))
	}
	return err
}

// stuckTimeout bounds each statement.
const stuckTimeout = 5 * time.Second

// oldest returns the age in seconds of the first operation of a list that has no answer.
func oldest(page func(after external.Operation) ([]external.Operation, error)) (float64, error) {
	for last := (external.Operation{}); ; {
		ops, err := page(last)
		if err != nil || len(ops) == 0 {
			return 0, err
		}
		for _, op := range ops {
			switch op.State {
			case external.StateParked:
				return op.Now.Sub(op.ChangedAt).Seconds(), nil
			case external.StateDone: // listed because it happened twice
				last = op
			default:
				return op.Now.Sub(op.CreatedAt).Seconds(), nil
			}
		}
	}
}
