package deduptest

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// stage stands for one process of the tool: a pool, through a proxy, and a Deduper on it.
type stage struct {
	proxy   *faultproxy.Proxy
	pool    *pgxpool.Pool
	deduper *dedup.Deduper
}

// openStage returns a stage on which one call was made. A later call does not check the table, and
// rarely prepares a statement.
func (v *verification) openStage(ctx context.Context, tool Tool, tracer pgx.QueryTracer) (*stage, error) {
	proxy, err := faultproxy.New(v.url)
	if err != nil {
		return nil, err
	}
	s, err := tool.stage(ctx, proxy.URL(), tracer)
	if err != nil {
		proxy.Close()
		return nil, err
	}
	s.proxy = proxy
	v.counted = -1
	if r := <-tool.start(ctx, v.patience, s, v.newKey(), 0); r.err != nil {
		_ = s.close(v.patience)
		return nil, fmt.Errorf("a first call, without any fault, fails: %w", r.err)
	}
	return s, nil
}

// stage opens pool and Deduper, without a proxy.
func (t Tool) stage(ctx context.Context, url string, tracer pgx.QueryTracer) (*stage, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URL: %w", err)
	}
	if t.Configure != nil {
		t.Configure(config)
	}
	if tracer != nil {
		config.ConnConfig.Tracer = tracer
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("opening a pool: %w", err)
	}
	deduper, err := dedup.New(pool, t.Options)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("Tool.Options: %w", err)
	}
	return &stage{pool: pool, deduper: deduper}, nil
}

// close closes the stage. It returns an error if the tool keeps connections.
func (s *stage) close(patience time.Duration) error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.pool.Close()
	}()
	defer s.proxy.Close()
	if !within(patience, closed) {
		return fmt.Errorf("%d connections were never given back to the pool: a transaction that is not ended, or rows that are not closed", s.pool.Stat().AcquiredConns())
	}
	return nil
}
