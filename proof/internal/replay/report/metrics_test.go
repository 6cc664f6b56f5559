package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/replay/metrics"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := compared()
	r.Naive = nil
	r.Metrics = &Metrics{
		Seen:     metrics.Calls{Calls: 1400, Replayed: 1000, Recovered: 30, Unknown: 2, Waits: 50},
		Exported: metrics.Calls{Calls: 1300, Replayed: 900, Recovered: 29, Unknown: 2, Waits: 49},
	}
	require.Empty(t, r.Failure())
	var out bytes.Buffer
	require.NoError(t, Table(&out, r))
	golden(t, "metrics.txt", out.Bytes())

	r.Metrics.Disagree = 3
	require.Equal(t, "3 tools whose metrics do not agree", r.Failure())
}
