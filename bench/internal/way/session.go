package way

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/server"
)

// caller makes one call for each of the keys.
type caller func(ctx context.Context, keys []string) error

// pooled is a session with one pool.
type pooled struct {
	pool *pgxpool.Pool
	call caller
	end  func() error // of what the way has beside the pool; nil for nothing
}

func (s pooled) Call(ctx context.Context, keys []string) error { return s.call(ctx, keys) }

func (s pooled) Pools() []*pgxpool.Pool { return []*pgxpool.Pool{s.pool} }

func (s pooled) Close() (err error) {
	if s.end != nil {
		err = s.end()
	}
	s.pool.Close()
	return err
}

// newPool is a pool with a connection for each client and two to spare.
func newPool(ctx context.Context, url string, clients int) (*pgxpool.Pool, error) {
	return server.Pool(ctx, url, clients+2)
}

// onPool opens a session with one pool. start may return, beside what makes calls, what is to end
// before the pool is closed.
func onPool(start func(ctx context.Context, env Env, pool *pgxpool.Pool) (caller, func() error, error)) func(context.Context, Env) (Session, error) {
	return func(ctx context.Context, env Env) (Session, error) {
		pool, err := newPool(ctx, env.Postgres, env.Clients)
		if err != nil {
			return nil, err
		}
		call, end, err := start(ctx, env, pool)
		s := pooled{pool, call, end}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
}

// withPool opens a session that needs nothing else.
func withPool(call func(ctx context.Context, pool *pgxpool.Pool, keys []string) error) func(context.Context, Env) (Session, error) {
	return onPool(func(_ context.Context, _ Env, pool *pgxpool.Pool) (caller, func() error, error) {
		return func(ctx context.Context, keys []string) error { return call(ctx, pool, keys) }, nil, nil
	})
}

// withDeduper opens a session of the library.
func withDeduper(call func(ctx context.Context, d *dedup.Deduper, keys []string) error) func(context.Context, Env) (Session, error) {
	return onPool(func(_ context.Context, _ Env, pool *pgxpool.Pool) (caller, func() error, error) {
		d, err := dedup.New(pool, nil)
		return func(ctx context.Context, keys []string) error { return call(ctx, d, keys) }, nil, err
	})
}
