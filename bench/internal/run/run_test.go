package run

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/way"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const redisFolder = "../../../.cache/redis"

// flagged are the options of a command line without flags.
func flagged() options {
	var o options
	o.flags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return o
}

func TestDefaultsAndCheckAreValid(t *testing.T) {
	t.Parallel()

	o := flagged()
	require.NoError(t, o.validate())
	o.short(checkRounds, allBounds)
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

// trips are those with Postgres, of a first call and of a replay. Those of the rivals are
// theirs to change, in the next release.
var trips = map[string][2]float64{
	"bare":       {3},
	"textbook":   {5, 3},
	"do":         {3, 2},
	"do-otel":    {3, 2},
	"look-first": {4, 1},
	"statement":  {1, 2},
	"batch":      {0.01, 0.02},
	"redis":      {3, 0},
	"external":   {5, 1},
	"accept":     {4},
}

// TestWays runs the ways whose trips are known: a first call has one effect, a replay has none.
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
			require.NoError(t, s.Seed(t.Context(), calls))
			require.Len(t, s.Seeds, calls)
			require.NoError(t, s.Verify(t.Context()))
			costs, err := count(t.Context(), b, s, counts{trips: 3, calls: 3})
			require.NoError(t, err)
			for i, c := range costs {
				require.Equal(t, kinds[i].kind, c.Kind)
				require.Equal(t, want[i], c.RoundTrips, c.Kind)
				require.Positive(t, c.Allocs)
			}
			require.Positive(t, costs[0].WALBytes)
			require.NoError(t, s.Verify(t.Context()), "a replay has no effect")
		})
	}
}

// TestLongAllWays measures every way at once, with as many clients as the default has.
func TestLongAllWays(t *testing.T) {
	t.Parallel()

	o := options{
		rounds: 1, delays: []time.Duration{0}, clients: []int{16}, to: way.Base, redisFolder: redisFolder,
		minOps: 1, seeds: 16, counts: counts{trips: 1, calls: 1},
	}
	r, err := measureAll(t.Context(), o, t.Logf)
	require.NoError(t, err)
	require.Len(t, r.Ways, len(way.All()))
	for _, w := range r.Ways {
		first, ok := r.Cell(w.Name, First, 0, 16)
		require.Equal(t, w.Skipped == "", ok, w.Name)
		require.Equal(t, ok, first.Ops > 0, w.Name)
	}
}

// sample is one of the given number of calls in a second.
func sample(calls int, latencies ...time.Duration) measure.Sample {
	return measure.Sample{Calls: calls, Elapsed: time.Second, Latencies: latencies}
}

func TestSummarize(t *testing.T) {
	t.Parallel()

	// In the second round the machine was half as fast, which changes no ratio.
	base := []measure.Sample{sample(1000), sample(500), sample(1000)}
	samples := []measure.Sample{sample(800, 1, 2), sample(400, 9), sample(700, 3)}
	require.Equal(t, Cell{
		PerSecond: 700, P50: 2, P99: 9, Ops: 4, Ratio: 0.8, RatioLow: 0.7, RatioHigh: 0.8,
	}, summarize(samples, base))
}

func TestWrite(t *testing.T) {
	t.Parallel()

	r := &Report{
		Rounds: 3, Duration: 400 * time.Millisecond, To: "bare",
		Lines: []Line{{}, {Delay: near, RoundTrip: 1190 * time.Microsecond}},
		Ways: []Way{
			{Name: "bare", Title: "bare transaction"}, {Name: "do", Title: "dedup.Do"},
			{Name: "river", Skipped: "it was not there"},
		},
		Cells: []Cell{
			{Way: "bare", Kind: First, Delay: near, Clients: 16, PerSecond: 9000, Ratio: 1, RatioLow: 1, RatioHigh: 1},
			{
				Way: "do", Kind: First, Delay: near, Clients: 16, PerSecond: 8880.5, Processor: 98700,
				Ratio: 0.987, RatioLow: 0.9, RatioHigh: 1.1, P50: 350 * time.Microsecond, P99: 15 * time.Millisecond,
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
