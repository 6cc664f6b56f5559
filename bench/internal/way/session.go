package way

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// A Session is a way that is connected.
type Session struct {
	// Call makes one call for each of the keys, Batch of them. A key that was
	// used before is replayed, if the way can do that. It may be called from any goroutine.
	Call caller
	// Pools are the connections to Postgres, whose statistics may have to be flushed.
	Pools []*pgxpool.Pool

	end func() error // of what the way has beside the pools; nil for nothing
}

type caller func(ctx context.Context, keys []string) error

// Close ends the session.
func (s *Session) Close() (err error) {
	if s.end != nil {
		err = s.end()
	}
	for _, pool := range s.Pools {
		pool.Close()
	}
	return err
}

// connect adds a pool with a connection for each client and two to spare.
func (s *Session) connect(ctx context.Context, url string, clients int) (*pgxpool.Pool, error) {
	pool, err := Pool(ctx, url, clients+2)
	if err == nil {
		s.Pools = append(s.Pools, pool)
	}
	return pool, err
}

// open connects a way.
type open = func(context.Context, Env) (*Session, error)

// onPool opens a session with one pool. start may return, beside what makes calls, what is to end
// before the pool is closed.
func onPool(start func(context.Context, Env, *pgxpool.Pool) (caller, func() error, error)) open {
	return func(ctx context.Context, env Env) (*Session, error) {
		s := &Session{}
		pool, err := s.connect(ctx, env.Postgres, env.Clients)
		if err != nil {
			return nil, err
		}
		if s.Call, s.end, err = start(ctx, env, pool); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
}

// withPool opens a session that needs nothing else.
func withPool(call func(ctx context.Context, pool *pgxpool.Pool, key string) error) open {
	return onPool(func(_ context.Context, _ Env, pool *pgxpool.Pool) (caller, func() error, error) {
		return func(ctx context.Context, keys []string) error { return call(ctx, pool, keys[0]) }, nil, nil
	})
}

// withDeduper opens a session of the library.
func withDeduper(call func(ctx context.Context, d *dedup.Deduper, keys []string) error) open {
	return onPool(func(_ context.Context, _ Env, pool *pgxpool.Pool) (caller, func() error, error) {
		d, err := dedup.New(pool, nil)
		return func(ctx context.Context, keys []string) error { return call(ctx, d, keys) }, nil, err
	})
}

// Pool connects all connections of a pool at once, so that none is opened while
// something is measured.
func Pool(ctx context.Context, url string, conns int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URL: %w", err)
	}
	config.MaxConns, config.MinConns, config.MaxConnIdleTime = int32(conns), int32(conns), time.Hour
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	acquired := make([]*pgxpool.Conn, 0, conns)
	for len(acquired) < conns && err == nil {
		var conn *pgxpool.Conn
		if conn, err = pool.Acquire(ctx); err == nil {
			acquired = append(acquired, conn)
		}
	}
	for _, conn := range acquired {
		conn.Release()
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("connecting %d times: %w", conns, err)
	}
	return pool, nil
}
