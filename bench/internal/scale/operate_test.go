package scale

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is asked of the table, large or small, is found by an index, and statistics read no
// record.
func TestLongOperate(t *testing.T) {
	t.Parallel()
	s, o := setup(t), OperateOptions{Records: 50_000, Runs: 20}
	all, err := operate(t.Context(), s, o)
	require.NoError(t, err)
	require.Len(t, all, 20)
	for _, a := range all {
		require.Equal(t, o.Runs, a.took.Calls, a.what)
		require.Positive(t, a.took.P50, a.what)
		switch a.what {
		case "dedup list --outcome broken", "page records, broken": // a search goes through more records than there are here
			continue
		case "dedup show", "dedup list", "dedup attention", "page call", "page records", "page attention", "page overview", "page inflight", "page audit": // each page counts what needs somebody
			require.GreaterOrEqual(t, a.scans.index, int64(o.Runs), a.what)
		case "dedup version", "dedup stats":
			require.Zero(t, a.scans.index, a.what)
			require.Zero(t, a.scans.rows, a.what)
		}
		require.Zero(t, a.scans.sequential, a.what)
	}
	var out bytes.Buffer
	writeAsked(&out, o, all)
	require.Contains(t, out.String(), "page overview")
}

func TestOperateFlags(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{"--records", "0"}, {"--runs", "0"}, {"argument"}} {
		refused(t, OperateCommand(), args)
	}
}
