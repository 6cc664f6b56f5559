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
	if err := s.open(ctx, task); err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	return s.mux, s.close, nil
}

// server is the tools of all domains and the way to run them.
type server struct {
	mode    Mode
	mux     *http.ServeMux
	domains map[string]*domain
}

// domain is the tools of a domain and its pool.
type domain struct {
	pool     *pgxpool.Pool
	tools    map[string]ledger.Tool
	deduper  *dedup.Deduper // nil in mode Naive
	registry *tool.Registry // nil in mode Naive
}

func (s *server) open(ctx context.Context, task Task) (err error) {
	if s.mode != Naive && s.mode != Dedup {
		return fmt.Errorf("unknown mode %q", s.mode)
	}
	opts := dedup.Options{IdleTimeout: idleTimeout}
	for name, tools := range task.Tools {
		d := &domain{tools: map[string]ledger.Tool{}}
		definitions := make([]tool.Definition, len(tools))
		for i, t := range tools {
			d.tools[t.Name], definitions[i] = t, t.Definition()
		}
		if d.pool, err = connect(ctx, task); err != nil {
			return err
		}
		s.domains[name] = d
		if s.mode == Naive {
			continue
		}
		if d.deduper, err = dedup.New(d.pool, &opts); err != nil {
			return err
		}
		d.registry = tool.NewRegistry(d.deduper, nil)
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

// close closes the pools.
func (s *server) close() error {
	for _, d := range s.domains {
		d.pool.Close()
	}
	return nil
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
