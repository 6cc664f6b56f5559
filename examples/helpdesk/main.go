package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// drainLimit is how long calls may go on after SIGTERM.
const drainLimit = 30 * time.Second

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, log); err != nil {
		log.Error("failed", "error", err)
		os.Exit(1)
	}
	log.Info("stopped")
}

// run serves until ctx ends. Its defers stop the calls, the sweeper and the pool, in this order.
func run(ctx context.Context, log *slog.Logger) error {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return errors.New("DATABASE_URL is not set")
	}
	accounts, err := readTokens(os.Getenv("HELPDESK_TOKENS"))
	if err != nil {
		return fmt.Errorf("HELPDESK_TOKENS: %w", err)
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrate(ctx, pool); err != nil {
		return err
	}
	d, err := dedup.New(pool, &dedup.Options{Tracer: dedup.NewSlogTracer(log)})
	if err != nil {
		return err
	}
	stopSweeper, err := sweep(ctx, d)
	if err != nil {
		return err
	}
	defer stopSweeper()
	handler, err := newServer(d, log, accounts)
	if err != nil {
		return err
	}
	return serve(ctx, log, handler)
}

// sweep runs a Sweeper until stop is called. Every instance of the service has one; one of them
// sweeps at a time. It outlives ctx, so that it stops after the last call.
func sweep(ctx context.Context, d *dedup.Deduper) (stop func(), err error) {
	sweeper, err := dedup.NewSweeper(d, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = sweeper.Run(ctx) // until ctx ends; the tracer gets the error of a failed sweep
	}()
	return func() { cancel(); <-ended }, nil
}

// serve answers requests until ctx ends. Then it stops accepting and waits for the running calls.
func serve(ctx context.Context, log *slog.Logger, handler http.Handler) error {
	addr := os.Getenv("HELPDESK_ADDR")
	if addr == "" {
		addr = "127.0.0.1:8080"
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	// The requests' contexts do not end with ctx: SIGTERM must not cut calls.
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.Info("listening", "addr", listener.Addr().String())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.Info("draining")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close() // ends the contexts of the remaining calls
		return fmt.Errorf("draining: %w", err)
	}
	return nil
}
