package oteldedup

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
)

// tool has the data that the calls of a tool share. Its options are made once, so that counting a
// call allocates nothing.
type tool struct {
	name     string
	spanName string
	start    []trace.SpanStartOption
	attributes
	observe  []metric.ObserveOption
	outcomes map[dedup.Outcome]*attributes
}

// attributes are the attributes of a measurement, for each kind of instrument.
type attributes struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newAttributes(all ...attribute.KeyValue) attributes {
	set := metric.WithAttributeSet(attribute.NewSet(all...))
	return attributes{add: []metric.AddOption{set}, record: []metric.RecordOption{set}}
}

func newTool(name string) *tool {
	named := toolNameKey.String(name)
	return &tool{
		name: name, spanName: executeTool + " " + name,
		start: []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(operation, toolType, named),
		},
		attributes: newAttributes(named),
		observe:    []metric.ObserveOption{metric.WithAttributeSet(attribute.NewSet(named))},
		outcomes:   make(map[dedup.Outcome]*attributes),
	}
}

// with returns the attributes of calls with an outcome.
func (t *tool) with(outcome dedup.Outcome) *attributes {
	known := t.outcomes[outcome]
	if known == nil {
		made := newAttributes(toolNameKey.String(t.name), outcomeKey.String(string(outcome)))
		known = &made
		t.outcomes[outcome] = known
	}
	return known
}

// isName reports whether a tool may have this name. A call with an invalid name is invalid. The
// name is not passed on, because an exporter may reject all data with it.
func isName(text string) bool { return table.NameProblem("Tool", text) == "" }
