package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
)

// maxConns is the size of a worker's pool. It is given one delivery at a time; the
// second connection is for what a broken first one left to find out, and for the
// next delivery while one whose client has gone still runs.
const maxConns = 2

var errMore = errors.New("there is another line")

// Serve executes deliveries until in ends. The end of ctx cancels what is being
// executed.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	lines, answers := json.NewDecoder(in), json.NewEncoder(out)
	var hello Hello
	if err := lines.Decode(&hello); err != nil {
		return fmt.Errorf("reading the first line: %w", err)
	}
	if _, err := ParseWay(string(hello.Way)); err != nil {
		return err
	}
	e, err := newExecutor(ctx, hello)
	if err != nil {
		return err
	}
	defer e.close()
	switch {
	case hello.Way.Networked():
		return serveNetwork(ctx, hello.Way, e, lines, answers)
	case hello.Metrics:
		return serveMetered(ctx, e, lines, answers)
	default:
		return serveLines(ctx, e, lines, answers)
	}
}

// serveMetered is serveLines beside a page of metrics.
func serveMetered(ctx context.Context, e *executor, in *json.Decoder, out *json.Encoder) error {
	address, end, err := listen(ctx, e.metrics)
	if err != nil {
		return err
	}
	if err = out.Encode(Answer{Address: address}); err == nil {
		err = serveLines(ctx, e, in, out)
	}
	return errors.Join(err, end())
}

// serveNetwork serves a way's handler until in ends, at an address that it
// announces on out.
func serveNetwork(ctx context.Context, way Way, e *executor, in *json.Decoder, out *json.Encoder) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	handler, err := way.handler(e)
	if err != nil {
		return err
	}
	address, end, err := listen(ctx, handler)
	if err != nil {
		return err
	}
	err = announce(address, in, out)
	cancel()
	return errors.Join(err, end())
}

// listen serves a handler at an address until end is called.
func listen(ctx context.Context, handler http.Handler) (address string, end func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return listener.Addr().String(), func() error {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	}, nil
}

// announce tells the driver an address and waits until in ends. There is nothing
// more in it.
func announce(address string, in *json.Decoder, out *json.Encoder) error {
	if err := out.Encode(Answer{Address: address}); err != nil {
		return fmt.Errorf("announcing the address: %w", err)
	}
	var line json.RawMessage
	if err := in.Decode(&line); !errors.Is(err, io.EOF) {
		return fmt.Errorf("waiting for the end of the input: %w", cmp.Or(err, errMore))
	}
	return nil
}

// connect makes a pool, of which a schema comes first on the search path, "" for the role's own.
func connect(ctx context.Context, hello Hello, schema string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(hello.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("reading the database URL: %w", err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = hello.Name
	if schema != "" {
		config.ConnConfig.RuntimeParams["search_path"] = schema
	}
	config.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("making a pool: %w", err)
	}
	return pool, nil
}
