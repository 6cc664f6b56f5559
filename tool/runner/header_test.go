package runner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestHeaderString(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"k1":                     `"k1"`,
		"two words":              `"two words"`,
		`say "yes"`:              `"say \"yes\""`,
		`C:\temp\`:               `"C:\\temp\\"`,
		`\"`:                     `"\\\""`,
		" ~":                     `" ~"`,
		strings.Repeat("k", 255): `"` + strings.Repeat("k", 255) + `"`,
	} {
		got, err := headerString(key)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, key, headerKey(got))
	}
	for _, key := range []string{"é", "k\n", "k\r\nX-Evil: 1", "\x00", "\x1f", "\x7f", "\xff"} {
		_, err := headerString(key)
		var invalid *dedup.InvalidError
		require.ErrorAs(t, err, &invalid, "%q", key)
		require.Equal(t, "Key", invalid.Field)
		require.NotContains(t, err.Error(), key)
	}
}

func TestHeaderKey(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"k1"`: "k1", "k1": "k1", "": "", `""`: "", `"`: `"`, `"k1`: `"k1`, `k1"`: `k1"`, `"k1";a=1`: `"k1";a=1`,
	} {
		require.Equal(t, want, headerKey(value), value)
	}
}

// readString is the algorithm of RFC 9651, section 4.2.5, word for word.
func readString(value string) (string, bool) {
	if value == "" || value[0] != '"' {
		return "", false
	}
	var out strings.Builder
	for rest := value[1:]; rest != ""; {
		char := rest[0]
		rest = rest[1:]
		switch {
		case char == '\\':
			if rest == "" || rest[0] != '"' && rest[0] != '\\' {
				return "", false
			}
			out.WriteByte(rest[0])
			rest = rest[1:]
		case char == '"':
			return out.String(), rest == ""
		case char < 0x20 || char > 0x7e:
			return "", false
		default:
			out.WriteByte(char)
		}
	}
	return "", false
}

// What headerString writes is a structured field's string of the same value, and
// it refuses only what none can hold.
func FuzzHeaderString(f *testing.F) {
	for _, seed := range []string{"k1", `a"b\c`, `\\\"`, "é", "\r\n", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		printable := strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) < 0
		text, err := headerString(key)
		require.Equal(t, printable, err == nil)
		if err != nil {
			return
		}
		got, ok := readString(text)
		require.True(t, ok)
		require.Equal(t, key, got)
		require.Equal(t, key, headerKey(text))
	})
}
