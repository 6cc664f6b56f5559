package server

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool connects all connections of a pool at once, so that none is opened while
// something is measured.
func Pool(ctx context.Context, url string, conns int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URL: %w", err)
	}
	config.MaxConns = int32(conns)
	config.MinConns = config.MaxConns
	config.MaxConnIdleTime = time.Hour
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	open := make([]*pgxpool.Conn, 0, conns)
	for range conns {
		conn, acquireErr := pool.Acquire(ctx)
		if acquireErr != nil {
			err = fmt.Errorf("connecting %d times: %w", conns, acquireErr)
			break
		}
		open = append(open, conn)
	}
	for _, conn := range open {
		conn.Release()
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}
