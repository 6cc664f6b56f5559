package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/cmd/dedup/internal/world"
)

// maxConns is the size of a worker's pool. It executes one delivery at a time;
// the second connection is for what a broken first one left to find out.
const maxConns = 2

// Serve executes what in delivers until in or ctx ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := json.NewDecoder(in)
	var hello Hello
	if err := lines.Decode(&hello); err != nil {
		return fmt.Errorf("reading the first line: %w", err)
	}
	pool, err := connect(ctx, hello)
	if err != nil {
		return err
	}
	defer pool.Close()
	execute, err := newExecutor(pool, hello.Mode)
	if err != nil {
		return err
	}

	// Reading goes on while a delivery is executed, so that the end of the
	// driver cancels it.
	deliveries := make(chan Delivery)
	ended := make(chan error, 1)
	go func() {
		defer close(deliveries)
		defer cancel()
		ended <- read(ctx, lines, deliveries)
	}()
	answers := json.NewEncoder(out)
	for delivery := range deliveries {
		answer := execute.deliver(ctx, delivery)
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
	return <-ended
}

func read(ctx context.Context, lines *json.Decoder, deliveries chan<- Delivery) error {
	for {
		var delivery Delivery
		if err := lines.Decode(&delivery); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a delivery: %w", err)
		}
		select {
		case deliveries <- delivery:
		case <-ctx.Done():
			return nil
		}
	}
}

func connect(ctx context.Context, hello Hello) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(hello.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("reading the database URL: %w", err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = hello.Name
	config.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("making a pool: %w", err)
	}
	return pool, nil
}

func newExecutor(pool *pgxpool.Pool, mode Mode) (*executor, error) {
	e := &executor{pool: pool, tools: world.Tools()}
	switch mode {
	case Naive:
		e.write = e.naive
	case Dedup:
		deduper, err := newDeduper(pool)
		if err != nil {
			return nil, err
		}
		e.write = func(ctx context.Context, run runFunc, d Delivery) (Answer, error) {
			return once(ctx, deduper, run, d)
		}
	default:
		return nil, fmt.Errorf("unknown mode %q", mode)
	}
	return e, nil
}
