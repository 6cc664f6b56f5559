package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const longest = time.Duration(1<<63 - 1)
	for value, test := range map[string]struct {
		wait time.Duration
		ok   bool
	}{
		"0":                                {0, true},
		"120":                              {2 * time.Minute, true},
		" 7\t":                             {7 * time.Second, true},
		"007":                              {7 * time.Second, true},
		"9223372036":                       {9223372036 * time.Second, true},
		"9223372037":                       {longest, true},
		"9223372036854775808":              {longest, true},
		"99999999999999999999999999999":    {longest, true},
		"Sat, 21 Nov 2026 12:00:09 GMT":    {9 * time.Second, true},
		"Sat, 21 Nov 2026 11:59:00 GMT":    {0, true},
		"Saturday, 21-Nov-26 12:00:09 GMT": {9 * time.Second, true}, // RFC 850
		"Sat Nov 21 12:00:09 2026":         {9 * time.Second, true}, // asctime
		"":                                 {0, false},
		" ":                                {0, false},
		"-1":                               {0, false},
		"+1":                               {0, false},
		"1.5":                              {0, false},
		"1s":                               {0, false},
		"1, 2":                             {0, false},
		"１":                                {0, false},
		"Sat, 21 Nov 2026":                 {0, false},
	} {
		wait, ok := parseRetryAfter(value, now)
		require.Equal(t, test.ok, ok, value)
		require.Equal(t, test.wait, wait, value)
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{"0", "120", "-1", "99999999999999999999", "Sat, 21 Nov 2026 12:00:09 GMT", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		wait, ok := parseRetryAfter(value, time.Unix(1, 0))
		require.GreaterOrEqual(t, wait, time.Duration(0))
		if !ok {
			require.Zero(t, wait)
		}
	})
}
