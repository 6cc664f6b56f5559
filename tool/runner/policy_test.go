package runner

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

func TestPolicyFor(t *testing.T) {
	t.Parallel()
	once, read, keyed := Policy{Tries: 1}, Policy{Tries: 3, First: time.Second}, Policy{Tries: 3, First: 2 * time.Second}
	for _, test := range []struct {
		class         tool.Class
		bare, withKey Policy
	}{
		{tool.Unclassified, once, once},
		{tool.ReadOnly, read, read},
		{tool.Idempotent, read, keyed},
		{tool.Write, once, keyed},
		{tool.Destructive, once, keyed},
		{tool.External, once, keyed},
		{tool.Class(99), once, once},
		{tool.Class(-1), once, once},
	} {
		require.Equal(t, test.bare, policyFor(test.class, false), test.class)
		require.Equal(t, test.withKey, policyFor(test.class, true), test.class)
	}
}

func TestPolicyBound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy Policy
		tries  int
		want   time.Duration
	}{
		"NoPause":              {Policy{}, 5, 0},
		"NoPauseWithMax":       {Policy{Max: time.Hour}, 5, 0},
		"First":                {Policy{First: time.Second, Max: 5 * time.Second}, 1, time.Second},
		"Doubled":              {Policy{First: time.Second, Max: 5 * time.Second}, 3, 4 * time.Second},
		"Capped":               {Policy{First: time.Second, Max: 5 * time.Second}, 4, 5 * time.Second},
		"DefaultMax":           {Policy{First: time.Second}, 20, time.Minute},
		"FirstAboveDefaultMax": {Policy{First: time.Hour}, 20, time.Hour},
		"NoOverflow":           {Policy{First: time.Second, Max: math.MaxInt64}, math.MaxInt32, math.MaxInt64},
		"Longest":              {Policy{First: math.MaxInt64}, 9, math.MaxInt64},
	} {
		require.Equal(t, test.want, test.policy.bound(test.tries), name)
	}
}

// Whatever is drawn, a pause lies between Retry-After and that plus the bound, or plus
// half of the time behind it, the bound never shrinks and never passes Max.
func TestPauseBounds(t *testing.T) {
	t.Parallel()
	property := func(first, longest uint32, tries uint8, after, behind uint32, seed uint64) bool {
		p := Policy{First: time.Duration(first) + 1, Max: time.Duration(first) + time.Duration(longest) + 1}
		n := int(tries)%70 + 1
		random := rand.New(rand.NewPCG(seed, 1))
		bound := p.bound(n)
		low := time.Duration(after)
		left := low + time.Duration(behind) + 1
		high := low + min(bound, (left-low)/2)
		pause := p.pause(n, low, left, random.Int64N)
		return pause >= low && pause <= high && pause < left && bound <= p.Max && bound >= p.First && p.bound(n+1) >= bound &&
			p.pause(n, low, left, func(int64) int64 { return 0 }) == low &&
			p.pause(n, low, left, func(n int64) int64 { return n - 1 }) == high
	}
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 20_000}))
}

// Full jitter is even: each tenth of the range is drawn about as often.
func TestPauseIsEven(t *testing.T) {
	t.Parallel()
	const draws = 100_000
	random := rand.New(rand.NewPCG(7, 7))
	var tenths [10]int
	for range draws {
		pause := policyFor(tool.Write, true).pause(2, 0, math.MaxInt64, random.Int64N) // up to 4 s
		tenths[min(int(pause*10/(4*time.Second)), 9)]++
	}
	for i, n := range tenths {
		require.InDelta(t, draws/10, n, draws/100, i)
	}
}

func TestPauseDoesNotOverflow(t *testing.T) {
	t.Parallel()
	p := Policy{First: math.MaxInt64}
	last := func(n int64) int64 { return n - 1 }
	const forever = time.Duration(math.MaxInt64)
	require.Equal(t, forever/2, p.pause(1, 0, forever, last))
	require.Equal(t, forever/2+time.Hour/2, p.pause(1, time.Hour, forever, last))
	require.Equal(t, forever-1, policyFor(tool.Write, true).pause(1, forever-2, forever, last))
	require.Equal(t, forever, policyFor(tool.Write, true).pause(1, forever, forever, last))
	require.Equal(t, 2*time.Second, policyFor(tool.Write, true).pause(1, -time.Hour, forever, last))
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	for field, policies := range map[string][]Policy{
		"":             {{}, {Tries: 1}, {Tries: 9, First: time.Hour}, {First: time.Second, Max: time.Second}},
		"Policy.Tries": {{Tries: -1}},
		"Policy":       {{First: -1}, {Max: -1}, {TryTimeout: -1}},
		"Policy.Max":   {{First: 2, Max: 1}},
	} {
		for _, policy := range policies {
			err := policy.check()
			if field == "" {
				require.NoError(t, err)
				continue
			}
			var invalid *dedup.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, field, invalid.Field)
		}
	}
}
