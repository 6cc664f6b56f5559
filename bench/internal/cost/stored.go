package cost

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/size"
)

// Seed seeds the site and returns how many bytes a call leaves in its databases:
// tables and indexes, vacuumed, without the effect itself.
func Seed(ctx context.Context, s *bed.Site, calls int) (storedBytes float64, err error) {
	before, err := stored(ctx, s)
	if err != nil {
		return 0, err
	}
	seeds := len(s.Seeds)
	if err := s.Seed(ctx, calls); err != nil {
		return 0, err
	}
	after, err := stored(ctx, s)
	if err != nil {
		return 0, err
	}
	return float64(after-before) / float64(len(s.Seeds)-seeds), nil
}

// stored is the size of everything that is no effect.
func stored(ctx context.Context, s *bed.Site) (bytes int64, err error) {
	for _, pool := range s.Pools {
		if _, err := pool.Exec(ctx, `VACUUM`); err != nil {
			return 0, fmt.Errorf("vacuuming %s: %w", s.Way.Name, err)
		}
		relations, err := size.Relations(ctx, pool)
		if err != nil {
			return 0, fmt.Errorf("sizing %s: %w", s.Way.Name, err)
		}
		for _, r := range relations {
			if r.Name != "effects" {
				bytes += r.Bytes
			}
		}
	}
	return bytes, nil
}
