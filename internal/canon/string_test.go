package canon

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCanonicalRefusesStrings(t *testing.T) {
	t.Parallel()

	for text, reason := range map[string]string{
		`"a`:                   "end of text within a string, at byte 2",
		`"a\`:                  "end of text within a string",
		"\"a\nb\"":             "a control character that is not escaped in a string, at byte 2",
		"\"\x00\"":             "a control character that is not escaped in a string",
		"{\"\t\":1}":           "a control character that is not escaped in a string",
		`"\x41"`:               "an unknown escape in a string, at byte 1",
		`"\U0041"`:             "an unknown escape in a string",
		`"\u12"`:               "an unknown escape in a string",
		`"\u12g4"`:             "an unknown escape in a string",
		`"\ud800"`:             "a lone surrogate in a string, at byte 1",
		`"a\udc00"`:            "a lone surrogate in a string, at byte 2",
		`"\ud800\ud800"`:       "a lone surrogate in a string",
		`"\ud800\u0041"`:       "a lone surrogate in a string",
		`"\ud800x"`:            "a lone surrogate in a string",
		`"\ud800\n"`:           "a lone surrogate in a string",
		`{"\udfff":1}`:         "a lone surrogate in a string",
		"\"ab\xff\"":           "invalid UTF-8 in a string, at byte 3",
		"\"é\xc3\"":            "invalid UTF-8 in a string, at byte 3",
		"\"\xc3\\n\xa9\"":      "invalid UTF-8 in a string, at byte 1",
		"\"\xed\xa0\x80\"":     "invalid UTF-8 in a string",
		"\"\xf4\x90\x80\x80\"": "invalid UTF-8 in a string",
		"{\"\xff\":1}":         "invalid UTF-8 in a string, at byte 2",
	} {
		_, err := canonicalOf(text)
		require.Error(t, err, text)
		requireInvalid(t, err, reason)
	}
}

func randomString(r *rand.Rand) string {
	alphabet := []rune("aaabcd\"\\/\x00\n\t\x1f\x7fé€\U0001f600\ufb33\ufffd<")
	s := make([]rune, r.IntN(4))
	for i := range s {
		s[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(s)
}

func referenceString(s string) string {
	b := new(bytes.Buffer)
	for _, r := range s {
		if short := strings.IndexRune("\"\\\b\t\n\f\r", r); short >= 0 {
			b.WriteString([]string{`\"`, `\\`, `\b`, `\t`, `\n`, `\f`, `\r`}[short])
		} else if r < ' ' {
			fmt.Fprintf(b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}
