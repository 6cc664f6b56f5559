package oteldedup

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tooldedup/dedup"
)

const (
	// maxTools is the most tools that are counted by name.
	maxTools = 200
	// otherTools is the name under which all other tools are counted.
	otherTools = "_other"
)

// call is a call that has started.
type call struct {
	tool  *tool
	span  trace.Span
	began time.Time
}

// calls has the calls in flight, and the tools that are counted by name.
type calls struct {
	mu    sync.Mutex
	tools map[string]*tool
	// others counts all other tools; nil until there is one.
	others *tool
	open   map[*call]struct{} // the calls in flight
}

func (cs *calls) start(name string) *call {
	c := &call{began: time.Now()}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.tool = cs.named(name)
	if cs.open == nil {
		cs.open = make(map[*call]struct{})
	}
	cs.open[c] = struct{}{}
	return c
}

// end ends a call and returns the attributes of its outcome.
func (cs *calls) end(c *call, outcome dedup.Outcome) *attributes {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
	return c.tool.with(outcome)
}

// tool returns the tool under which a name is counted.
func (cs *calls) tool(name string) *tool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.named(name)
}

func (cs *calls) named(name string) *tool {
	of := cs.tools[name]
	switch {
	case of != nil:
		return of
	case len(cs.tools) == maxTools || !isName(name):
		if cs.others == nil {
			cs.others = newTool(otherTools)
		}
		return cs.others
	case cs.tools == nil:
		cs.tools = make(map[string]*tool)
	}
	of = newTool(name)
	cs.tools[name] = of
	return of
}

// observe makes the meter read the calls in flight whenever metrics are read.
func (cs *calls) observe(meter metric.Meter) error {
	inFlight, err := meter.Int64ObservableUpDownCounter("dedup.calls.in_flight", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that have not come to an end."))
	age, ageErr := meter.Float64ObservableGauge("dedup.call.in_flight.age.max", metric.WithUnit("s"),
		metric.WithDescription("How long ago the oldest call in flight began, 0 where there is none."))
	if err := errors.Join(err, ageErr); err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for of, seen := range cs.inFlight(time.Now()) {
			o.ObserveInt64(inFlight, seen.calls, of.observe...)
			o.ObserveFloat64(age, seen.oldest.Seconds(), of.observe...)
		}
		return nil
	}, inFlight, age)
	return err
}

// flight is the number of a tool's calls in flight, and the age of the oldest.
type flight struct {
	calls  int64
	oldest time.Duration
}

// inFlight returns an entry for every tool, also for those without calls in flight.
func (cs *calls) inFlight(now time.Time) map[*tool]flight {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all := make(map[*tool]flight, len(cs.tools)+1)
	for _, of := range cs.tools {
		all[of] = flight{}
	}
	if cs.others != nil {
		all[cs.others] = flight{}
	}
	for c := range cs.open {
		seen := all[c.tool]
		all[c.tool] = flight{seen.calls + 1, max(seen.oldest, now.Sub(c.began))}
	}
	return all
}
