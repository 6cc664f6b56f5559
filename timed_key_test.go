package dedup

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimedKey(t *testing.T) {
	t.Parallel()

	// A golden vector: a key that changed with a release would run an old intent
	// again.
	at := time.Date(2026, 11, 21, 8, 30, 0, 123_456_789, time.UTC)
	key, err := TimedKey(at, "tc1_abc")
	require.NoError(t, err)
	require.Equal(t, "ts1_1k7ujk0tr_tc1_abc", key)
	require.Len(t, key, len("tc1_abc")+14)

	again, err := TimedKey(at.Truncate(time.Millisecond).In(time.FixedZone("", 3600)), "tc1_abc")
	require.NoError(t, err)
	require.Equal(t, key, again, "milliseconds, in any zone")

	// Keys sort as their times do, whatever is behind.
	var keys []string
	for _, d := range []time.Duration{0, time.Millisecond, time.Second, time.Hour, 24 * time.Hour, 40 * 365 * 24 * time.Hour} {
		key, err := TimedKey(at.Add(d), "z")
		require.NoError(t, err)
		keys = append(keys, key)
	}
	require.True(t, slices.IsSorted(keys), "%q", keys)
	last, err := TimedKey(time.UnixMilli(maxTimedKey), "k")
	require.NoError(t, err)
	require.Equal(t, "ts1_vvvvvvvvv_k", last)
	first, err := TimedKey(time.UnixMilli(0), "k")
	require.NoError(t, err)
	require.Equal(t, "ts1_000000000_k", first)
}

func TestTimedKeyRefused(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at    time.Time
		key   string
		field string
	}{
		"ZeroTime":  {time.Time{}, "k", "At"},
		"Before":    {time.UnixMilli(-1), "k", "At"},
		"After":     {time.UnixMilli(maxTimedKey + 1), "k", "At"},
		"NoKey":     {now, "", "Key"},
		"Control":   {now, "a\nb", "Key"},
		"LongKey":   {now, strings.Repeat("k", 256), "Key"},
		"LongTimed": {now, strings.Repeat("k", 242), "Key"},
	} {
		_, err := TimedKey(c.at, c.key)
		var invalid *InvalidCallError
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, c.field, invalid.Field, name)
	}
	_, err := TimedKey(now, strings.Repeat("k", 241))
	require.NoError(t, err)
}
