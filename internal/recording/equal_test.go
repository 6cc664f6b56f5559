package recording

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEqual(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, a, b string
		want       bool
	}{
		{"SameText", "a plain sentence.", "a plain sentence.", true},
		{"OtherText", "a plain sentence.", "a plain sentence", false},
		{"TextAndJSON", "abc", `"abc"`, false},
		{"SpaceAndOrder", `{"a": 1, "b": [2]}`, `{"b":[2],"a":1}`, true},
		{"OrderOfAList", `[1,2]`, `[2,1]`, false},
		{"NumbersByValue", `{"a": 100.0}`, `{"a":1e2}`, true},
		{"LastDigit", `0.20999999999999375`, `0.21`, false},
		{"NegativeZero", `-0.0`, `0`, true},
		{"Escapes", `"\u00e9\u003c"`, `"é<"`, true},
		{"AbsentKey", `{"a":null}`, `{}`, false},
		{"NullAndEmpty", Null, "", false},
		{"NullAndNull", Null, Null, true},
		{"TrailingText", `{} x`, `{}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, Equal(tt.a, tt.b))
			require.Equal(t, tt.want, Equal(tt.b, tt.a))
		})
	}
}
