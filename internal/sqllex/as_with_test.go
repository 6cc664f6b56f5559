package sqllex_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/sqllex"
	"github.com/tooldedup/dedup/internal/sqllex/corpus"
)

// FuzzAsWith: what is taken can neither leave the WITH query that it stands in nor
// run on behind it. It is read by independent rules.
func FuzzAsWith(f *testing.F) {
	for _, c := range corpus.Taken {
		f.Add(c.SQL)
	}
	for _, c := range corpus.Refused {
		f.Add(c.SQL)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		with, params, err := sqllex.AsWith(sql, "tool_dedup_effect")
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, params, 0)
		require.LessOrEqual(t, params, sqllex.MaxParams)
		const marker = "tool_dedup_effect AS (\n"
		require.Contains(t, with, marker)
		require.True(t, strings.HasSuffix(with, "\n)"))

		rest, most, ok := plainSQL(with + "\nSELECT marker")
		require.True(t, ok, "something is left open in %q", with)
		require.LessOrEqual(t, most, params, "parameters of %q", with)
		require.NotContains(t, rest, ";")
		inside := outermost(t, rest)
		require.True(t, strings.HasSuffix(inside, "()\nSELECT marker"), "%q", inside)
	})
}

// outermost removes what stands between parentheses, which must be balanced.
func outermost(t *testing.T, sql string) string {
	var out strings.Builder
	depth := 0
	for _, c := range []byte(sql) {
		switch c {
		case ')':
			depth--
			require.GreaterOrEqual(t, depth, 0, "%q", sql)
		}
		if depth == 0 {
			out.WriteByte(c)
		}
		if c == '(' {
			depth++
		}
	}
	require.Zero(t, depth, "%q", sql)
	return out.String()
}
