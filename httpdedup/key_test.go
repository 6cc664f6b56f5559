package httpdedup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`a,b`:                                "comma",
		strings.Repeat("k", 256):             "256 bytes",
		`"` + strings.Repeat("k", 256) + `"`: "256 bytes",
	} {
		_, err := parseKey([]string{text})
		var refused *refusal
		require.ErrorAs(t, err, &refused, "%q", text)
		require.Equal(t, kindInvalidKey.Name, refused.Name, "%q", text)
		require.Contains(t, refused.Detail, want, "%q", text)
	}
	for _, lines := range [][]string{{"a", "a"}, {"a", ""}, {"", ""}} {
		_, err := parseKey(lines)
		require.ErrorContains(t, err, "2 times")
	}
}

// A header that names no single request is no key.
func TestNoKey(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{nil, {""}, {" "}, {`""`}, {`"";a=1`}} {
		key, err := parseKey(lines)
		require.NoError(t, err, lines)
		require.Empty(t, key)
		var refused *refusal
		require.ErrorAs(t, noKey(lines, key), &refused)
		require.Equal(t, len(lines) == 0, refused.Name == kindMissingKey.Name)
		require.Equal(t, len(lines) > 0, refused.Name == kindInvalidKey.Name && strings.Contains(refused.Detail, "is empty"))
	}
}
