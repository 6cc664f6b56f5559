package oteldedup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/oteldedup"
)

// TestInFlightMetrics counts a call as in flight from its start to its end, while its twin waits.
func TestInFlightMetrics(t *testing.T) {
	t.Parallel()
	waits := signal(isWait)
	o := newObserved(t, waits)
	const tool = "gen_ai.tool.name=add_note"
	running, finish, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	call := func(effect dedup.Effect[string]) {
		_, err := dedup.Do(t.Context(), o.d, callOf("k"), effect)
		done <- err
	}
	go call(func(context.Context, pgx.Tx) (string, error) {
		close(running)
		<-finish
		return "hello", nil
	})
	<-running
	require.Equal(t, map[string]float64{tool: 1}, o.points(t, "dedup.calls.in_flight"))
	require.Positive(t, o.points(t, "dedup.call.in_flight.age.max")[tool])

	go call(note("never"))
	<-waits.came
	require.Equal(t, map[string]float64{tool: 2}, o.points(t, "dedup.calls.in_flight"))
	close(finish)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Equal(t, map[string]float64{tool: 0}, o.points(t, "dedup.calls.in_flight"))
	require.Equal(t, map[string]float64{tool: 0}, o.points(t, "dedup.call.in_flight.age.max"))
	require.Equal(t, map[string]float64{"dedup.wait.in_process=true," + tool: 1}, o.points(t, "dedup.waits"))
	require.Equal(t, map[string]float64{tool: 1}, o.points(t, "dedup.wait.duration"))
}

// signals is a tracer that signals the events for which is returns true.
type signals struct {
	dedup.Tracer
	is   func(event dedup.Event) bool
	came chan struct{}
}

func signal(is func(event dedup.Event) bool) signals {
	return signals{dedup.MultiTracer(), is, make(chan struct{}, 1)}
}

func (s signals) TraceEvent(_ context.Context, event dedup.Event) {
	if s.is(event) {
		select {
		case s.came <- struct{}{}:
		default:
		}
	}
}

func isWait(event dedup.Event) bool {
	_, ok := event.(dedup.WaitStartData)
	return ok
}

// failingOnce returns an effect whose first run fails with a serialization error.
func failingOnce() dedup.Effect[string] {
	runs := 0
	return func(ctx context.Context, tx pgx.Tx) (string, error) {
		if runs++; runs > 1 {
			return "hello", nil
		}
		_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE 'no order of these transactions' USING ERRCODE = '40001'; END $$`)
		return "", err
	}
}

// TestSweepMetrics reports when a sweep succeeded, its records, and its errors.
func TestSweepMetrics(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	_, err := o.d.Sweep(t.Context(), nil)
	require.NoError(t, err)
	last := o.points(t, "dedup.sweep.last_success.timestamp")
	require.InDelta(t, time.Now().Unix(), last[""], 60)
	require.Equal(t, map[string]float64{"": 1}, o.points(t, "dedup.sweep.duration"))
	require.Equal(t, map[string]float64{"dedup.sweep.kind=expired": 0, "dedup.sweep.kind=forgotten": 0}, o.points(t, "dedup.sweep.records"))

	_, err = o.pool.Exec(t.Context(), `ALTER TABLE tool_dedup RENAME TO gone`)
	require.NoError(t, err)
	_, err = o.d.Sweep(t.Context(), nil)
	require.Error(t, err)
	require.Equal(t, map[string]float64{"": 1}, o.points(t, "dedup.sweep.errors"))
	require.Equal(t, last, o.points(t, "dedup.sweep.last_success.timestamp"))
}

// TestSweepsThatDoNotCount has a sweep whose context was cancelled, as at the end of a process: it
// is not an error. A sweep that left the table to another instance is not a success. Counts that
// could not be written are counted beside a successful sweep.
func TestSweepsThatDoNotCount(t *testing.T) {
	t.Parallel()
	m, tracer := newTracer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tracer.TraceEvent(ctx, dedup.SweptData{Err: context.Canceled, StatsErr: context.Canceled})
	tracer.TraceEvent(t.Context(), dedup.SweptData{SweepResult: dedup.SweepResult{Skipped: true}})
	for _, name := range []string{"dedup.sweep.errors", "dedup.sweep.last_success.timestamp", "dedup.sweep.duration", "dedup.stats.errors"} {
		require.Empty(t, m.points(t, name), name)
	}
	tracer.TraceEvent(t.Context(), dedup.SweptData{StatsErr: errors.New("no table")})
	tracer.TraceEvent(t.Context(), dedup.SweptData{})
	require.Equal(t, map[string]float64{"": 1}, m.points(t, "dedup.stats.errors"))
	require.Equal(t, map[string]float64{"": 2}, m.points(t, "dedup.sweep.duration"))
}

// newTracer returns a Tracer without a Deduper.
func newTracer(t testing.TB) (*metrics, *oteldedup.Tracer) {
	t.Helper()
	m := newMetrics(t)
	tracer, err := oteldedup.New(&oteldedup.Options{MeterProvider: m.provider})
	require.NoError(t, err)
	return m, tracer
}

// traceCall sends a tracer the events of a call.
func traceCall(ctx context.Context, tracer *oteldedup.Tracer, tool string, outcome dedup.Outcome) {
	data := dedup.CallData{Func: "Do", Scope: "acme", Tool: tool, Key: "k", KeyHash: dedup.KeyHash("k")}
	ctx = tracer.TraceCallStart(ctx, data)
	tracer.TraceCallEnd(ctx, dedup.CallEndData{CallData: data, Outcome: outcome, Attempts: 1, Duration: 1000, Age: 1000, ResultBytes: 100})
}

// TestManyCalls counts calls of many goroutines while another one reads the metrics.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	m, tracer := newTracer(t)
	const goroutines, each = 8, 1000
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range each {
				traceCall(t.Context(), tracer, "add_note", dedup.OutcomeExecuted)
			}
		})
	}
	for range 20 {
		require.LessOrEqual(t, m.points(t, "dedup.calls.in_flight")["gen_ai.tool.name=add_note"], float64(goroutines))
	}
	all.Wait()
	require.Equal(t, map[string]float64{"gen_ai.tool.name=add_note": 0}, m.points(t, "dedup.calls.in_flight"))
	require.Equal(t, map[string]float64{"dedup.outcome=executed,gen_ai.tool.name=add_note": goroutines * each}, m.points(t, "dedup.calls"))
}

// TestToolsAreBounded counts tools after the first 200, and invalid names, together. A span has the
// tool's name if it is valid.
func TestToolsAreBounded(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	tracer, err := oteldedup.New(&oteldedup.Options{TracerProvider: o.traces, MeterProvider: o.provider})
	require.NoError(t, err)
	call := func(tool string) { traceCall(t.Context(), tracer, tool, dedup.OutcomeExecuted) }
	for _, wrong := range []string{"", "a\x00b", "\xff", strings.Repeat("a", 256)} {
		call(wrong)
		require.Equal(t, "_other", attributesOf(o.span(t, "execute_tool _other"))["gen_ai.tool.name"])
	}
	for i := range 200 + 100 {
		call(fmt.Sprint("tool ", i))
	}
	require.Equal(t, "tool 299", attributesOf(o.span(t, "execute_tool _other"))["gen_ai.tool.name"])

	points := o.points(t, "dedup.calls")
	require.Equal(t, 200+1, len(points)) //nolint:testifylint // Len prints them all
	require.InDelta(t, 4+100, points["dedup.outcome=executed,gen_ai.tool.name=_other"], 0)
	require.Equal(t, 200+1, len(o.points(t, "dedup.calls.in_flight"))) //nolint:testifylint // the same
}
