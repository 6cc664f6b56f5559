package run

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/bench/internal/bed"
)

// seed seeds the site and returns how many bytes a call leaves in its databases:
// tables and indexes, vacuumed, without the effect itself.
func seed(ctx context.Context, s *bed.Site, calls int) (storedBytes float64, err error) {
	before, err := stored(ctx, s.Pools)
	if err != nil {
		return 0, err
	}
	if err := s.Seed(ctx, calls); err != nil {
		return 0, err
	}
	after, err := stored(ctx, s.Pools)
	return float64(after-before) / float64(len(s.Seeds)), err
}

// stored is the size of all tables and indexes but the effects' and the system's. Only
// main forks count: the maps of free space and visibility take a few pages in any table,
// however small. No record of the benchmark is long enough for TOAST.
func stored(ctx context.Context, pools []*pgxpool.Pool) (all int64, err error) {
	for _, pool := range pools {
		if _, err := pool.Exec(ctx, `VACUUM`); err != nil {
			return 0, fmt.Errorf("vacuuming: %w", err)
		}
		var bytes int64
		err := pool.QueryRow(ctx, `
			SELECT coalesce(sum(pg_relation_size(c.oid)), 0)::bigint
			FROM pg_class c
			JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE c.relkind IN ('r', 'i')
			AND c.relname <> 'effects'
			AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`).Scan(&bytes)
		if err != nil {
			return 0, fmt.Errorf("asking for the sizes of tables: %w", err)
		}
		all += bytes
	}
	return all, nil
}
