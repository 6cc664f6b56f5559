package oteldedup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/oteldedup"
)

// exportedNames is the file with the metrics and labels that a run of the library exports.
const exportedNames = "testdata/prometheus.golden"

// TestPrometheusNames compares Prometheus's metrics with exportedNames, against which the alerts
// and the dashboard in deploy are checked. UPDATE_GOLDEN=1 writes the file. A sampled call leaves
// an exemplar in the histograms.
func TestPrometheusNames(t *testing.T) {
	t.Parallel()
	registry, traceID := exportedRun(t)
	families, err := registry.Gather()
	require.NoError(t, err)
	var lines []string
	for _, family := range families {
		labels := map[string]bool{}
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				labels[label.GetName()] = true
			}
		}
		lines = append(lines, strings.Join(append([]string{family.GetName(), strings.ToLower(family.GetType().String())}, slices.Sorted(maps.Keys(labels))...), " "))
	}
	got := strings.Join(lines, "\n") + "\n"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(exportedNames, []byte(got), 0o600))
	}
	want, err := os.ReadFile(exportedNames)
	require.NoError(t, err)
	require.Equal(t, string(want), got)

	page := httptest.NewRecorder()
	request := httptest.NewRequest("GET", "/metrics", nil)
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(page, request)
	require.Regexp(t, `(?m)^dedup_call_duration_seconds_bucket\{.*trace_id="`+traceID+`"`, page.Body.String())
}

// TestPrometheusOverflow exceeds the MeterProvider's limit. The series has the label that
// DedupSeriesOverflow alerts on.
func TestPrometheusOverflow(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	require.NoError(t, err)
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithCardinalityLimit(2))
	tracer, err := oteldedup.New(&oteldedup.Options{MeterProvider: meters})
	require.NoError(t, err)
	for _, tool := range []string{"a", "b", "c"} {
		tracer.TraceEvent(t.Context(), dedup.ChangedData{CallData: dedup.CallData{Tool: tool}, Freed: true})
	}
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	require.Regexp(t, `(?m)^dedup_resets_total\{otel_metric_overflow="true",.*\} 2$`, page.Body.String())
}

// exportedRun makes calls with several outcomes, so that every instrument has a value, and returns
// their trace.
func exportedRun(t *testing.T) (registry *prometheus.Registry, traceID string) {
	t.Helper()
	registry = prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	require.NoError(t, err)
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	t.Cleanup(func() { require.NoError(t, meters.Shutdown(context.WithoutCancel(t.Context()))) })
	traces := sdktrace.NewTracerProvider()
	tracer, err := oteldedup.New(&oteldedup.Options{TracerProvider: traces, MeterProvider: meters})
	require.NoError(t, err)

	pool := pgtest.New(t).Pool(t)
	waits := signal(isWait)
	unwritten := signal(func(event dedup.Event) bool { // a Sweeper could not write its counts
		swept, ok := event.(dedup.SweptData)
		return ok && swept.StatsErr != nil
	})
	d, err := dedup.New(pool, &dedup.Options{Tracer: dedup.MultiTracer(tracer, waits, unwritten)})
	require.NoError(t, err)
	ctx, root := traces.Tracer("test").Start(t.Context(), "root")
	defer root.End()
	do := func(key string, effect dedup.Effect[string]) { _, _ = dedup.Do(ctx, d, callOf(key), effect) }

	do("replayed", hello)
	do("replayed", hello)
	do("error", func(context.Context, pgx.Tx) (string, error) { return "", errors.New("no") })
	do("refused", func(context.Context, pgx.Tx) (string, error) { return "", dedup.Final(errors.New("never")) })
	do("retried", failingOnce())
	do("", hello)

	running, finish, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		do("twin", func(context.Context, pgx.Tx) (string, error) {
			close(running)
			<-finish
			return "", nil
		})
	}()
	<-running
	go func() {
		<-waits.came
		close(finish)
	}()
	do("twin", hello)
	<-done

	tools, err := external.New(d, nil)
	require.NoError(t, err)
	charge, err := external.Add(tools, external.Tool[int, string]{
		Name: "charge", KeyKept: external.Forever, Ref: func(out string) string { return out },
		Perform: func(context.Context, external.Attempt, int) (string, error) { return "ch_1", nil },
	})
	require.NoError(t, err)
	_, err = charge.Do(ctx, dedup.Call{Scope: "acme", Key: "k"}, 990)
	require.NoError(t, err)
	require.NoError(t, tools.Close(ctx))
	require.NoError(t, tracer.ObserveExternal(tools))
	_, err = pool.Exec(ctx, `INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
		VALUES ('acme', 'charge', 'parked', 'parked', 1, 0, false, '', now(), now())`)
	require.NoError(t, err)

	_, err = d.Reset(ctx, "acme", "add_note", "replayed", dedup.ChangeOptions{Reason: "a test"})
	require.NoError(t, err)
	_, err = d.Sweep(ctx, nil)
	require.NoError(t, err)
	_, err = pool.Exec(ctx, `ALTER TABLE tool_dedup_stat RENAME TO gone_stat`)
	require.NoError(t, err)
	sweeper, err := dedup.NewSweeper(d, &dedup.SweeperOptions{RecordStats: true})
	require.NoError(t, err)
	sweeping, stop := context.WithCancel(ctx)
	go func() {
		<-unwritten.came
		stop()
	}()
	require.ErrorIs(t, sweeper.Run(sweeping), context.Canceled)
	_, err = pool.Exec(ctx, `ALTER TABLE tool_dedup RENAME TO gone`)
	require.NoError(t, err)
	_, err = d.Sweep(ctx, nil)
	require.Error(t, err)
	return registry, fmt.Sprint(root.SpanContext().TraceID())
}

func hello(context.Context, pgx.Tx) (string, error) { return "hello", nil }
