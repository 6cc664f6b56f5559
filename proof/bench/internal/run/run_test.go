package run

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const redisFolder = "../../../../.cache/redis"

// flagged are the default options of the command line.
func flagged() options {
	var o options
	o.flags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return o
}

func TestDefaultsAndCheckAreValid(t *testing.T) {
	t.Parallel()

	o := flagged()
	require.NoError(t, o.validate())
	o.short()
	require.NoError(t, o.validate())
}

func TestValidate(t *testing.T) {
	t.Parallel()

	for flag, spoil := range map[string]func(*options){
		"--rounds":   func(o *options) { o.rounds = 0 },
		"--duration": func(o *options) { o.duration = -1 },
		"--delays":   func(o *options) { o.delays = []time.Duration{-1} },
		"--clients":  func(o *options) { o.clients = nil },
		"--ways":     func(o *options) { o.ways = []string{"luck"} },
		"--kinds":    func(o *options) { o.kinds = []string{"luck"} },
		"--to":       func(o *options) { o.ways, o.to = []string{"do"}, "do-otel" },
	} {
		o := flagged()
		spoil(&o)
		require.ErrorContains(t, o.validate(), flag)
	}
}

// trips are the round trips of Postgres, of a first call and of a replay. The rivals may change
// theirs in a release.
var trips = map[string][2]float64{
	"bare":       {3},
	"textbook":   {5, 3},
	"do":         {3, 2},
	"do-otel":    {3, 2},
	"look-first": {4, 1},
	"statement":  {2, 2},
	"batch":      {0.02, 0.02},
	"redis":      {3, 0},
	"external":   {5, 1},
	"accept":     {4},
}

// redisTrips are the round trips of Redis.
var redisTrips = map[string][2]float64{"redis": {4, 1}}

// TestWays runs the ways with known round trips: a first call has one effect, a replay has none.
func TestWays(t *testing.T) {
	t.Parallel()
	b, err := bed.Start(t.Context(), bed.Options{Fast: true, RedisFolder: redisFolder})
	require.NoError(t, err)
	// After the parallel subtests.
	t.Cleanup(func() { require.NoError(t, b.Stop(t.Context())) })

	for _, w := range way.All() {
		want, ok := trips[w.Name]
		if !ok {
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

			calls := 23 * w.Batch
			costs, err := count(t.Context(), b, s, calls, counts{trips: 3, calls: 3})
			require.NoError(t, err)
			require.Len(t, s.Seeds, calls)
			for i, c := range costs {
				require.Equal(t, kinds[i], c.Kind)
				require.Equal(t, want[i], c.RoundTrips, c.Kind)
				require.Equal(t, redisTrips[w.Name][i], c.RedisRoundTrips, c.Kind)
				require.Positive(t, c.Allocs)
			}
			require.Positive(t, costs[0].WALBytes)
			require.NoError(t, s.Verify(t.Context()), "a replay has no effect")
		})
	}
}

// TestLongAllWays measures every way at once, with the default number of clients.
func TestLongAllWays(t *testing.T) {
	t.Parallel()

	o := options{
		rounds: 1, delays: []time.Duration{0}, clients: []int{16}, to: way.Base, redisFolder: redisFolder,
		warmOps: 1, minOps: 1, seeds: 16, counts: counts{trips: 1, calls: 1},
	}
	b, err := bed.Start(t.Context(), bed.Options{RedisFolder: redisFolder})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Stop(t.Context())) })
	b.Say = t.Logf
	r, err := measured(t.Context(), b, o)
	require.NoError(t, err)
	for _, w := range way.All() {
		skipped := w.NeedsRedis && b.Redis == nil
		require.Equal(t, skipped, r.Cell(w.Name, First, Load{0, 16}).Calls == 0, w.Name)
		require.Equal(t, skipped, len(r.Skipped) > 0 && strings.HasPrefix(r.Skipped[0], w.Name), w.Name)
	}
}

// sample has the given number of calls in a second.
func sample(calls int, latencies ...time.Duration) measure.Sample {
	return measure.Sample{Calls: calls, Elapsed: time.Second, Latencies: latencies}
}

func TestCompare(t *testing.T) {
	t.Parallel()

	// In the second round the machine was half as fast. No ratio changes.
	base := measure.Rounds{sample(1000), sample(500), sample(1000)}
	rounds := measure.Rounds{sample(800, 1, 2), sample(400, 9), sample(700, 3)}
	require.Equal(t, Cell{
		Latency: measure.Latency{Calls: 1900, PerSecond: 700, P50: 2, P99: 9}, Ratio: 0.8, RatioLow: 0.7, RatioHigh: 0.8,
	}, compare(rounds, base))
}

// Each client replays its own calls in whole batches. With one key all clients replay the same
// call.
func TestKeys(t *testing.T) {
	t.Parallel()

	site := &bed.Site{Way: way.Way{Batch: 2}, Seeds: []string{"a", "b", "c", "d", "e", "f"}}
	next := keys(site, Replay, 2)
	require.Equal(t, [][]string{{"a", "b"}, {"d", "e"}, {"c", "d"}, {"a", "b"}}, [][]string{next(0), next(1), next(0), next(1)})
	next = keys(site, OneKey, 2)
	require.Equal(t, [][]string{{"a", "b"}, {"a", "b"}}, [][]string{next(0), next(0)})
	next = keys(site, First, 2)
	one, other := next(0), next(0)
	require.NotEqual(t, one, other)
}

// Of all schemas, with indexes, without the effects.
func TestStored(t *testing.T) {
	t.Parallel()

	pool := pgtest.NewEmpty(t).Pool(t)
	_, err := pool.Exec(t.Context(), `
		CREATE SCHEMA s;
		CREATE TABLE s.large (id int PRIMARY KEY);
		INSERT INTO s.large SELECT generate_series(1, 1000);
		CREATE TABLE effects (id int);
		INSERT INTO effects SELECT generate_series(1, 1000);
		CREATE TABLE empty (id int)`)
	require.NoError(t, err)
	bytes, err := stored(t.Context(), pool)
	require.NoError(t, err)
	require.EqualValues(t, (5+5)*8192, bytes)
}

func TestWrite(t *testing.T) {
	t.Parallel()

	r := &Report{
		Rounds: 3, Duration: 400 * time.Millisecond, To: "bare",
		Lines:   []Line{{}, {Delay: near, RoundTrip: 1190 * time.Microsecond}},
		Skipped: []string{"river: it was not there"},
		Cells: []Cell{
			{Way: "bare", Kind: First, Load: Load{near, 16}, Ratio: 1, RatioLow: 1, RatioHigh: 1},
			{
				Way: "do", Kind: First, Load: Load{near, 16}, Processor: 98700, Ratio: 0.987, RatioLow: 0.9, RatioHigh: 1.1,
				Latency: measure.Latency{PerSecond: 8880.5, P50: 350 * time.Microsecond, P99: 15 * time.Millisecond},
			},
		},
		Costs: []Cost{{
			Way: "do", Kind: First, RoundTrips: 3, WALBytes: 1544.4, Flushes: 1, Allocs: 70, AllocBytes: 9000, StoredBytes: 288,
		}},
	}
	var out bytes.Buffer
	r.Write(&out)
	require.Contains(t, out.String(), `ratios to "bare transaction"`)
	require.Contains(t, out.String(), "First calls, 0.5 ms each way (SELECT 1 takes 1.19 ms)")
	require.NotContains(t, out.String(), "loopback (", "nothing was measured there")
	require.Contains(t, out.String(), "  dedup.Do       16           8,880   0.99  0.90 and 1.10  0.35 ms  15.00 ms  0.10 ms\n")
	require.Contains(t, out.String(), "  dedup.Do  first         3.00        0.00      1,544         0.00     1.00           70            9,000           288\n")
	require.Contains(t, out.String(), "skipped: river: it was not there")
}
