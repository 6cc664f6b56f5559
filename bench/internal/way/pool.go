package way

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/bench/internal/server"
)

// newPool is a pool with a connection for each client and two to spare.
func newPool(ctx context.Context, url string, clients int) (*pgxpool.Pool, error) {
	return server.Pool(ctx, url, clients+2)
}

// onePool is the part of a session that only has a pool.
type onePool struct{ pool *pgxpool.Pool }

func (s onePool) Pools() []*pgxpool.Pool { return []*pgxpool.Pool{s.pool} }

func (s onePool) Close() error {
	s.pool.Close()
	return nil
}
