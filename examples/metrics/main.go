// Command metrics serves a tool to agents over MCP, at /mcp, and counts of its calls to Prometheus,
// at /metrics.
//
//	DATABASE_URL=postgres://… go run ./examples/metrics
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5/pgxpool"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tooldedup/dedup/migrations"
)

const address = "127.0.0.1:8080"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	traces := sdktrace.NewTracerProvider() // give it an exporter, such as the OTLP one
	pool, err := connect(ctx, os.Getenv("DATABASE_URL"), traces)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Check(ctx, pool, nil); err != nil {
		return err
	}
	handler, closeMetrics, err := newHandler(pool, traces)
	if err != nil {
		return err
	}
	defer closeMetrics()

	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	log.Printf("tools at http://%s/mcp, metrics at http://%s/metrics", address, address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// connect returns a pool whose statements are spans.
func connect(ctx context.Context, url string, traces trace.TracerProvider) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(traces))
	return pgxpool.NewWithConfig(ctx, config)
}
