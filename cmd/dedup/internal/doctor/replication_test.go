package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestWaitedFor(t *testing.T) {
	t.Parallel()

	pool := pgtest.NewEmpty(t).Pool(t)
	for names, want := range map[string]int{
		"second": 1, "*": 1, "second, third": 1, `"2 (x"`: 1,
		"2 (a, b, c)": 2, "FIRST 3 (a, b, c)": 3, " any 2(a,b)": 2,
	} {
		var got int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT `+waitedFor+` FROM (SELECT $1::text AS value) AS asked`, names).Scan(&got))
		require.Equal(t, want, got, names)
	}
}
