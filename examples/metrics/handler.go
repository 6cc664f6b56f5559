package main

import (
	"context"
	"net/http"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/oteldedup"
	"github.com/tooldedup/dedup/tool"
)

// newHandler returns the service's routes, and a function that stops its metrics.
func newHandler(pool *pgxpool.Pool, traces trace.TracerProvider) (http.Handler, func(), error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return nil, nil, err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	if err := otelpgx.RecordStats(pool, otelpgx.WithStatsMeterProvider(meters)); err != nil {
		return nil, nil, err
	}
	tracer, err := oteldedup.New(&oteldedup.Options{TracerProvider: traces, MeterProvider: meters})
	if err != nil {
		return nil, nil, err
	}
	d, err := dedup.New(pool, &dedup.Options{Tracer: tracer})
	if err != nil {
		return nil, nil, err
	}
	server, err := newServer(d)
	if err != nil {
		return nil, nil, err
	}

	routes := http.NewServeMux()
	routes.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	routes.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	return routes, func() { _ = meters.Shutdown(context.Background()) }, nil
}

type noteIn struct {
	Text string `json:"text" jsonschema:"what to remember"`
}

type note struct {
	ID int64 `json:"id"`
}

// newServer returns a server with one tool, which writes a note.
func newServer(d *dedup.Deduper) (*mcp.Server, error) {
	tools := tool.NewRegistry(d, nil)
	err := tools.Add(tool.Tool[noteIn, note]{
		Name: "add_note", Description: "Write a note.", Class: tool.Write,
		Run: func(ctx context.Context, tx pgx.Tx, in noteIn) (n note, err error) {
			err = tx.QueryRow(ctx, `INSERT INTO notes (text) VALUES ($1) RETURNING id`, in.Text).Scan(&n.ID)
			return n, err
		},
	})
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	server.AddReceivingMiddleware(traced)
	opts := &mcpdedup.Options{Scope: mcpdedup.SingleUser("me")} // if users log in: mcpdedup.TokenUser
	return server, mcpdedup.AddTools(server, tools, opts)
}

// traced adds calls to the trace of the client's request.
func traced(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if params := req.GetParams(); params != nil {
			ctx = oteldedup.ExtractMeta(ctx, params.GetMeta())
		}
		return next(ctx, method, req)
	}
}
