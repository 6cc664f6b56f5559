package way

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// An Env is the environment of a way.
type Env struct {
	// Postgres is the URL of the way's database.
	Postgres string
	// Redis is the address of a Redis server, or empty.
	Redis string
	// Clients is the number of concurrent callers. A pool has two more connections.
	Clients int
}

// A Session is a connected way.
type Session struct {
	Env
	// Call makes one call for each of the Batch keys. A key that was used before is replayed, if
	// the way has replays. Call is safe for concurrent use.
	Call caller
	// Pool has the connections to Postgres.
	Pool *pgxpool.Pool

	ends []func() error // closes the way's other resources
}

type caller = func(ctx context.Context, keys []string) error

// connect opens a way's other resources and returns the function that makes its calls.
type connect = func(ctx context.Context, s *Session) (caller, error)

// Open connects the way.
func (w Way) Open(ctx context.Context, env Env) (_ *Session, err error) {
	s := &Session{Env: env}
	if s.Pool, err = Pool(ctx, env.Postgres, env.Clients+2); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	if s.Call, err = w.connect(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", w.Name, err), s.Close())
	}
	return s, nil
}

// atEnd adds a function that Close calls before it closes the pool.
func (s *Session) atEnd(end func() error) { s.ends = append(s.ends, end) }

// Close ends the session.
func (s *Session) Close() (err error) {
	for _, end := range slices.Backward(s.ends) {
		err = errors.Join(err, end())
	}
	s.Pool.Close()
	return err
}

// Pool connects all connections of a pool at once, so that none is opened during a measurement.
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
	var acquired []*pgxpool.Conn
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
