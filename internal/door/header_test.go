package door_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/door"
)

func TestReadHeader(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                       "",
		`8e03978e-40d5-43dd`:     "8e03978e-40d5-43dd",
		`"8e03978e-40d5-43dd"`:   "8e03978e-40d5-43dd",
		"  \t\"k\"\t ":           "k",
		`"a b"`:                  "a b",
		`"a,b;c"`:                "a,b;c",
		`"a\"b\\c"`:              `a"b\c`,
		`" "`:                    " ",
		`tc1_abc/DEF+ghi==`:      "tc1_abc/DEF+ghi==",
		`order:117/send`:         "order:117/send",
		`'k'`:                    "'k'",
		`"k";a=1`:                "k",
		`"k" ; a=1;b`:            "k",
		`"k";a="x;y\"";b=:aGk=:`: "k",
		`"k";`:                   "k",
	} {
		got, _, problem := door.ReadHeader(line)
		require.Empty(t, problem, line)
		require.Equal(t, want, got, line)
	}
	_, params, _ := door.ReadHeader(`"s"; turn=4`)
	require.Equal(t, "; turn=4", params)

	for line, want := range map[string]string{
		`"k`:         "closing quote",
		`"`:          "closing quote",
		`"k\"`:       "closing quote",
		`"a\b"`:      "escapes nothing",
		`"a\`:        "escapes nothing",
		"\"a\tb\"":   "not visible ASCII",
		"\"a\x7fb\"": "not visible ASCII",
		`"é"`:        "not visible ASCII",
		"a\x00b":     "not visible ASCII",
		"é":          "not visible ASCII",
		`"a" "b"`:    "followed by something",
		`"a", "b"`:   "followed by something",
		`"a";p, "b"`: "followed by something",
		`"a"b`:       "followed by something",
		`a b`:        "not in quotes",
		`a,b`:        "not in quotes",
		`a;b`:        "not in quotes",
		`a"b`:        "not in quotes",
		`a\b`:        "not in quotes",
	} {
		text, _, problem := door.ReadHeader(line)
		require.Contains(t, problem, want, "%q", line)
		require.Empty(t, text)
	}
}

// FuzzHeader: a string that was read can be written and read again as the same string, and two
// lines that a proxy has joined are none.
func FuzzHeader(f *testing.F) {
	for _, seed := range []string{`"k"`, `k`, `"a\"b\\c";a="x";b=1`, `"`, `a,b`, "\x00", `;`, `"é"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if quoted, ok := door.HeaderString(line); ok {
			again, params, problem := door.ReadHeader(quoted)
			require.Empty(t, problem)
			require.Empty(t, params)
			require.Equal(t, line, again)
		}
		text, _, problem := door.ReadHeader(line)
		if problem != "" || text == "" {
			return
		}
		quoted, ok := door.HeaderString(text)
		require.True(t, ok)
		for _, same := range []string{quoted, quoted + ";p", " " + quoted + `; q="x"`} {
			again, _, problem := door.ReadHeader(same)
			require.Empty(t, problem)
			require.Equal(t, text, again)
		}
		_, _, problem = door.ReadHeader(strings.Trim(line, " \t") + ", " + quoted)
		require.NotEmpty(t, problem, line)
	})
}
