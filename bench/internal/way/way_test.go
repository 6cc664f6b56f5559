package way_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/cost"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

const redisFolder = "../../../.cache/redis"

// trips are those with Postgres, of a first call and of a replay. Those of the rivals are
// theirs to change, in the next release.
var trips = map[string][2]float64{
	"bare":     {3},
	"textbook": {5, 3},
	"do":       {3, 2},
	"do-otel":  {3, 2}, "do-otel-tenth": {3, 2}, "do-otel-metrics": {3, 2},
	"look-first": {4, 1},
	"statement":  {1, 2},
	"batch":      {0.01, 0.02},
	"redis":      {3, 0},
	"external":   {5, 1},
	"accept":     {4},
}

// TestWays runs the ways whose trips are known, so that none rots: a first call has one effect,
// a replay has none.
func TestWays(t *testing.T) {
	t.Parallel()
	testWays(t, true)
}

// TestLongWays does so with the others.
func TestLongWays(t *testing.T) {
	t.Parallel()
	testWays(t, false)
}

func testWays(t *testing.T, known bool) {
	t.Helper()
	b, err := bed.Start(t.Context(), bed.Options{Fast: true, RedisFolder: redisFolder})
	require.NoError(t, err)
	// After the parallel subtests.
	t.Cleanup(func() { require.NoError(t, b.Stop(t.Context())) })

	for _, w := range way.All() {
		want, ok := trips[w.Name]
		if ok != known {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			s, err := b.Site(t.Context(), w)
			if errors.Is(err, bed.ErrNoRedis) {
				t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
			}
			require.NoError(t, err)
			t.Cleanup(s.Close)

			// As many as are replayed: what a session replays twice it knows the second time.
			calls := 23 * w.Batch
			require.NoError(t, s.Seed(t.Context(), calls))
			require.Len(t, s.Seeds, calls)
			require.Equal(t, len(s.Seeds), effects(t, s), "one effect a call")
			if w.Replays {
				replay(t, s)
				require.Equal(t, len(s.Seeds), effects(t, s), "a replay has no effect")
			}
			require.NoError(t, s.Verify(t.Context()))

			costs, err := cost.Count(t.Context(), b, s, cost.Options{Trips: 3, Calls: 3})
			require.NoError(t, err)
			for i, c := range costs {
				require.Equal(t, []report.Kind{report.First, report.Replay}[i], c.Kind)
				if known {
					require.Equal(t, want[i], c.RoundTrips, c.Kind)
				}
				require.Positive(t, c.Allocs)
			}
			require.Positive(t, costs[0].WALBytes)
			require.NoError(t, s.Verify(t.Context()), "counting has replayed what it said it would")
		})
	}
}

// replay calls every seed again, on a session of its own.
func replay(t *testing.T, s *bed.Site) {
	t.Helper()
	session, err := s.Way.Open(t.Context(), s.Env(2, bed.Line{}))
	require.NoError(t, err)
	for i := 0; i < len(s.Seeds); i += s.Way.Batch {
		require.NoError(t, session.Call(t.Context(), s.Seeds[i:i+s.Way.Batch]))
	}
	require.NoError(t, session.Close())
}

func effects(t *testing.T, s *bed.Site) (n int) {
	t.Helper()
	require.NoError(t, s.Pools[0].QueryRow(t.Context(), `SELECT count(*) FROM effects`).Scan(&n))
	return n
}

func TestChoose(t *testing.T) {
	t.Parallel()

	names := func(ways []way.Way) (names []string) {
		for _, w := range ways {
			names = append(names, w.Name)
		}
		return names
	}
	ways, err := way.Choose([]string{"redis", "do"})
	require.NoError(t, err)
	require.Equal(t, []string{"bare", "do", "redis"}, names(ways), "the base always, and first")

	ways, err = way.Choose(nil)
	require.NoError(t, err)
	require.Equal(t, names(way.All()), names(ways))

	_, err = way.Choose([]string{"don't"})
	require.ErrorContains(t, err, "choose from bare, textbook")
}
