package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
	"github.com/tooldedup/dedup/tool"
)

const (
	// maxConns is the size of a pool. A worker gets one delivery at a time. The second connection
	// serves the next delivery while the first is broken, or still busy for a client that has gone.
	maxConns = 2
	// idleTimeout frees the locks of a vanished worker. The driver holds a unit for milliseconds.
	// On a machine so slow that it takes longer, the delivery fails and is sent again.
	idleTimeout = 2 * time.Second
	// The naive wrapper makes as many attempts as dedup's default.
	naiveAttempts = 12
	naivePause    = 10 * time.Millisecond
)

// Open makes the handler of deliveries for [lab.Serve].
func Open(ctx context.Context, task Task) (http.Handler, func() error, error) {
	s := &server{mode: task.Mode, mux: http.NewServeMux(), domains: map[string]*domain{}}
	pool, err := connect(ctx, task)
	if err != nil {
		return nil, nil, err
	}
	if err := s.open(task, pool); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return s.mux, func() error { pool.Close(); return nil }, nil
}

// server is the tools of all domains and the way to run them.
type server struct {
	mode    Mode
	mux     *http.ServeMux
	deduper *dedup.Deduper
	domains map[string]*domain
}

// domain is the tools of a domain.
type domain struct {
	pool     *pgxpool.Pool
	tools    map[string]ledger.Tool
	registry *tool.Registry // nil in mode Naive
}

func (s *server) open(task Task, pool *pgxpool.Pool) (err error) {
	if s.mode != Naive && s.mode != Dedup {
		return fmt.Errorf("unknown mode %q", s.mode)
	}
	if s.deduper, err = dedup.New(pool, &dedup.Options{IdleTimeout: idleTimeout}); err != nil {
		return err
	}
	for name, tools := range task.Tools {
		d := &domain{pool: pool, tools: map[string]ledger.Tool{}}
		definitions := make([]tool.Definition, len(tools))
		for i, t := range tools {
			d.tools[t.Name], definitions[i] = t, t.Definition()
		}
		s.domains[name] = d
		if s.mode == Naive {
			continue
		}
		d.registry = tool.NewRegistry(s.deduper, nil)
		if err := d.registry.Add(definitions...); err != nil {
			return fmt.Errorf("%s tools: %w", name, err)
		}
	}
	switch task.Way {
	case Registry:
		s.mux.HandleFunc("POST /", s.serveDelivery)
		return nil
	case HTTP:
		return s.serveHTTP()
	case MCP:
		return s.serveMCP()
	default:
		return fmt.Errorf("unknown way %q", task.Way)
	}
}

func connect(ctx context.Context, task Task) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(task.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("reading the database URL: %w", err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = task.Name
	config.MaxConns = maxConns
	return pgxpool.NewWithConfig(ctx, config)
}

// naive runs a tool as an ordinary wrapper does: a transaction, and another one after any error,
// until there is an answer. A read runs once.
func (d *domain) naive(ctx context.Context, t ledger.Tool) (out ledger.Out, err error) {
	attempts, options := naiveAttempts, pgx.TxOptions{}
	if t.Class == tool.ReadOnly {
		attempts, options.AccessMode = 1, pgx.ReadOnly
	}
	for range attempts {
		err = pgx.BeginTxFunc(ctx, d.pool, options, func(tx pgx.Tx) (err error) {
			out, err = t.Run(ctx, tx)
			return err
		})
		if err == nil || errors.As(err, new(*ledger.Refusal)) || attempts == 1 {
			return out, err
		}
		if !lab.Pause(ctx, rand.N(naivePause)) {
			return out, ctx.Err()
		}
	}
	return out, fmt.Errorf("gave up after %d attempts: %w", naiveAttempts, err)
}
