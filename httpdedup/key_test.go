package httpdedup

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/door"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 255)
	for text, want := range map[string]string{
		`"8e03978e-40d5-43dd-bc93-6894a57f9324"`: "8e03978e-40d5-43dd-bc93-6894a57f9324",
		`8e03978e-40d5-43dd-bc93-6894a57f9324`:   "8e03978e-40d5-43dd-bc93-6894a57f9324",
		`k`:                                      "k",
		`"k"`:                                    "k",
		"  \t\"k\"\t ":                           "k",
		`"a b"`:                                  "a b",
		`"a,b;c"`:                                "a,b;c",
		`"a\"b\\c"`:                              `a"b\c`,
		`" "`:                                    " ",
		`tc1_abc/DEF+ghi==`:                      "tc1_abc/DEF+ghi==",
		`order:117/send`:                         "order:117/send",
		`"k";a=1`:                                "k",
		`"k"; a=1;b`:                             "k",
		`"k";a="x;y\"";b=:aGk=:;c=?1`:            "k",
		`"k";*a-1.b_c=@1700000000`:               "k",
		`k;a=-1.5`:                               "k",
		`"k";a=%"f%c3%bc; x";b`:                  "k",
		`"` + long + `"`:                         long,
		long:                                     long,
		strings.Repeat("'", 3):                   "'''",
	} {
		got, err := parseKey([]string{text})
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"k`:                                 "closing quote",
		`"`:                                  "closing quote",
		`"k\"`:                               "closing quote",
		`"a\b"`:                              "escapes nothing",
		`"a\`:                                "escapes nothing",
		"\"a\tb\"":                           "not visible ASCII",
		"\"a\x7fb\"":                         "not visible ASCII",
		"\"a\u00e9\"":                        "not visible ASCII",
		"a\x00b":                             "not visible ASCII",
		"a\u00e9":                            "not visible ASCII",
		`a b`:                                "followed by something",
		`"a" "b"`:                            "followed by something",
		`"a", "b"`:                           "followed by something",
		`"a"b`:                               "followed by something",
		`"k";a=%"f%C3"`:                      "string is malformed",
		`"k";a=%"f%c`:                        "string is malformed",
		`"k";a=%"f`:                          "string is malformed",
		`"a" ;b`:                             "followed by something",
		`a,b`:                                "comma",
		`a"b`:                                "comma",
		`a\b`:                                "comma",
		`"a";`:                               "without a name",
		`"a";B=1`:                            "without a name",
		`"a";1=1`:                            "without a name",
		`"a";b=`:                             "without its value",
		`"a";b=;c`:                           "without its value",
		`"a";b="`:                            "string is malformed",
		`"a";b=1,`:                           "followed by something",
		strings.Repeat("k", 256):             "256 bytes",
		`"` + strings.Repeat("k", 256) + `"`: "256 bytes",
	} {
		_, err := parseKey([]string{text})
		var refused *refusal
		require.ErrorAs(t, err, &refused, "%q", text)
		require.Equal(t, kindInvalidKey, refused.kind, "%q", text)
		require.Contains(t, refused.detail, want, "%q", text)
	}
	for _, lines := range [][]string{{"a", "a"}, {"a", ""}, {"", ""}} {
		_, err := parseKey(lines)
		require.ErrorContains(t, err, "2 times")
	}
}

// A header that names no single request is no key.
func TestNoKey(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{nil, {""}, {" "}, {`""`}, {";a=1"}, {`"";a=1`}} {
		key, err := parseKey(lines)
		require.NoError(t, err, lines)
		require.Empty(t, key)
		var refused *refusal
		require.ErrorAs(t, noKey(lines, key), &refused)
		require.Equal(t, len(lines) == 0, refused.kind == kindMissingKey)
		require.Equal(t, len(lines) > 0, refused.kind == kindInvalidKey && strings.Contains(refused.detail, "is empty"))
	}
}

// FuzzKeyHeader holds that whatever is accepted is a key that dedup takes, and
// the same key in quotes.
func FuzzKeyHeader(f *testing.F) {
	for _, seed := range []string{`"k"`, `k`, `"a\"b\\c";a="x";b=1`, `"`, `a,b`, "\x00", `"k";a=:aGk=:`, `;`, `"é"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := parseKey([]string{text})
		if err != nil {
			var refused *refusal
			if key != "" || !errors.As(err, &refused) || refused.kind != kindInvalidKey {
				t.Fatalf("%q gave %q and %v", text, key, err)
			}
			return
		}
		if key == "" {
			return
		}
		if len(key) > door.MaxKey {
			t.Fatalf("%q gave a key of %d bytes", text, len(key))
		}
		for i := range len(key) {
			if key[i] < ' ' || key[i] > '~' {
				t.Fatalf("%q gave the byte %#x", text, key[i])
			}
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		for _, same := range []string{quoted, quoted + ";p", " " + quoted + `; q="x"`} {
			if again, err := parseKey([]string{same}); err != nil || again != key {
				t.Fatalf("%q gave %q, and %q gave %q, %v", text, key, same, again, err)
			}
		}
	})
}
