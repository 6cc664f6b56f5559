// Package oteldedup reports the calls of a Deduper to OpenTelemetry: a span for each call, and
// metrics.
//
//	tracer, err := oteldedup.New(nil) // the global providers
//	if err != nil {
//		return err
//	}
//	d, err := dedup.New(pool, &dedup.Options{Tracer: tracer})
//
// A call is a span "execute_tool {tool}" below the span of the caller's context. The effect's
// context has this span, so the spans of its statements (otelpgx) are below it. [ExtractMeta] takes
// the parent from a request of MCP.
//
// Spans and metrics never have arguments, results or texts of errors. A span has the hash of the
// call's key, and the attributes of [dedup.WithAttrs] in the caller's context. Metrics have neither
// scope nor key. Their attributes are the tool, up to 200 by name, and short lists of fixed values.
//
//	dedup.calls                         counter    tool, dedup.outcome
//	dedup.call.duration                 seconds    tool, dedup.outcome
//	dedup.call.attempts                 attempts   tool
//	dedup.calls.in_flight               gauge      tool
//	dedup.call.in_flight.age.max        seconds    tool
//	dedup.retries                       counter    tool, error.type
//	dedup.waits                         counter    tool, dedup.wait.in_process
//	dedup.wait.duration                 seconds    tool
//	dedup.replay.age                    seconds    tool
//	dedup.result.size                   bytes      tool
//	dedup.resets                        counter    tool
//	dedup.external.steps                counter    tool, dedup.external.step
//	dedup.external.open.age.max         seconds    dedup.external.state; after ObserveExternal
//	dedup.stuck                         gauge      tool, dedup.stuck.kind; after ObserveExternal
//	dedup.sweep.duration                seconds
//	dedup.sweep.records                 counter    dedup.sweep.kind
//	dedup.sweep.errors                  counter
//	dedup.sweep.last_success.timestamp  seconds since 1970
//	dedup.stats.errors                  counter
//
// The tool's attribute is gen_ai.tool.name. otelpgx.RecordStats reports the pool's connections.
//
// docs/operations.md of the library explains the less obvious metrics. Its folder deploy has alert
// rules and a dashboard.
package oteldedup
