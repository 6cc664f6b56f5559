package oteldedup_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/oteldedup"
)

// Metrics for Prometheus: a call and its retry in /metrics.
func Example_prometheus() {
	ctx := context.Background()
	pool, drop := pgtest.Example(`CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY, item text)`)
	defer drop()

	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	must(err)
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	defer func() { must(provider.Shutdown(ctx)) }()

	tracer, err := oteldedup.New(&oteldedup.Options{MeterProvider: provider}) // nil if otel.SetMeterProvider was called
	must(err)
	d, err := dedup.New(pool, &dedup.Options{Tracer: tracer})
	must(err)

	for range 2 {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "add_order", Key: "6f1c"},
			func(ctx context.Context, tx pgx.Tx) (id int, err error) {
				err = tx.QueryRow(ctx, `INSERT INTO orders (item) VALUES ('tea') RETURNING id`).Scan(&id)
				return id, err
			})
		must(err)
	}

	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}) // mount it at /metrics
	page := httptest.NewRecorder()
	metrics.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range regexp.MustCompile(`(?m)^dedup_calls_total{(.*?),otel_.*} (\d+)$`).FindAllStringSubmatch(page.Body.String(), -1) {
		fmt.Println(line[1], line[2])
	}

	// Output:
	// dedup_outcome="executed",gen_ai_tool_name="add_order" 1
	// dedup_outcome="replayed",gen_ai_tool_name="add_order" 1
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
