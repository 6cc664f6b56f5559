package scale

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/figure"
)

// Weight is what records take on disk.
type Weight struct {
	Keys   KeyKind `json:"keys"`
	Filled string  `json:"filled_by"` // COPY or calls
	Sizes
}

// weighCalls measures the records of real calls, so that the filled table can be
// compared with what it stands for.
func (g *Growth) weighCalls(ctx context.Context, s stand, keys KeyKind, calls int) error {
	const clients = 4
	if err := s.field(ctx, smallSchema); err != nil {
		return err
	}
	pool, err := s.pool(ctx, clients)
	if err != nil {
		return err
	}
	defer pool.Close()
	t, err := newTool(pool, dedup.Options{Schema: smallSchema, Retention: dedup.TaskRetention()})
	if err != nil {
		return err
	}
	s.say("%s calls with %s keys, to weigh their records", figure.Thousands(int64(calls)), keys)
	if _, err := drive(ctx, clients, calls, t.first(keys)); err != nil {
		return err
	}
	return g.weigh(ctx, pool, smallSchema, Weight{Keys: keys, Filled: "calls"})
}

func (g *Growth) weigh(ctx context.Context, pool *pgxpool.Pool, schema string, w Weight) (err error) {
	w.Sizes, err = measureSizes(ctx, pool, schema)
	g.Weights = append(g.Weights, w)
	return err
}
