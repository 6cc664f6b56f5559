// Demo is a small shop behind httpdedup, to be tried with curl: scripts/httpdedup-curl
// does. It finds or starts a Postgres, makes a database of its own on it, says on
// its first line of output where it listens, and drops the database when it is
// interrupted.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/migrations"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen; port 0 chooses a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stopWait bounds what is left to do once the demo is interrupted.
const stopWait = 30 * time.Second

// run serves until ctx ends.
func run(ctx context.Context, addr string) (err error) {
	server, err := pgserver.Start(ctx, nil)
	if err != nil {
		return err
	}
	cleanup, cancel := cleanupContext(ctx)
	defer cancel()
	defer func() { err = errors.Join(err, server.Stop(cleanup())) }()
	pool, drop, err := newDatabase(ctx, server.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop(cleanup())) }()
	handler, err := newShop(pool)
	if err != nil {
		return err
	}

	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	fmt.Fprintf(os.Stdout, "http://%s\n", listener.Addr())
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
		return srv.Shutdown(cleanup())
	}
}

// cleanupContext returns a context that goes on for stopWait after it is first
// asked for.
func cleanupContext(ctx context.Context) (cleanup func() context.Context, cancel context.CancelFunc) {
	var limited context.Context
	cancel = func() {}
	return func() context.Context {
		if limited == nil {
			limited, cancel = context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		}
		return limited
	}, func() { cancel() }
}

// newDatabase makes a database with the tables of dedup and of the shop. drop
// closes the pool and drops it.
func newDatabase(ctx context.Context, url string) (pool *pgxpool.Pool, drop func(context.Context) error, err error) {
	name := "dedup_http_demo_" + strings.ToLower(rand.Text()[:12])
	if err := execute(ctx, url, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return nil, nil, err
	}
	drop = func(ctx context.Context) error {
		if pool != nil {
			pool.Close()
		}
		return execute(ctx, url, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	}
	pool, err = openDatabase(ctx, url, name)
	if err != nil {
		return nil, nil, errors.Join(err, drop(context.WithoutCancel(ctx)))
	}
	return pool, drop, nil
}

func openDatabase(ctx context.Context, url, name string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URL: %w", err)
	}
	config.ConnConfig.Database = name
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("opening a pool: %w", err)
	}
	schema, err := migrations.SQL()
	if err == nil {
		_, err = pool.Exec(ctx, schema+"\n"+shopTables)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("creating the tables: %w", err)
	}
	return pool, nil
}

// execute runs one statement over a connection of its own.
func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
