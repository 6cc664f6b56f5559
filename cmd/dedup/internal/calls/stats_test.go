package calls_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/exit"
)

// row is a line of `dedup stats --json`.
type row struct {
	Tool, Outcome          string
	Calls, Ran, Duplicates int64
	Rate                   float64 `json:"duplicate_rate"`
	Seconds, Waited        float64
}

const recorded = `INSERT INTO tool_dedup_stat (at, instance, tool, outcome, calls, seconds, waited) VALUES
	(now() - interval '1 hour', 'a', 'refund', 'executed', 60, 6, 0),
	(now() - interval '2 hours', 'b', 'refund', 'refused', 10, 1, 0),
	(now() - interval '1 hour', 'a', 'refund', 'replayed', 20, 1, 0.5),
	(now() - interval '1 hour', 'a', 'refund', 'recovered', 4, 1, 0),
	(now() - interval '1 hour', 'a', 'refund', 'refusal_replayed', 1, 1, 0),
	(now() - interval '1 hour', 'a', 'refund', 'unknown', 5, 0, 0),
	(now() - interval '3 days', 'a', 'refund', 'executed', 1000, 6, 0),
	(now() - interval '1 hour', 'a', 'it''s', 'executed', 1, 0.25, 0)`

func TestStats(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.exec(t, recorded)
	all := fine[row](t, b, exit.OK, "stats")
	require.Len(t, all, 2)
	require.Equal(t, row{Tool: "refund", Calls: 100, Ran: 70, Duplicates: 25, Rate: 0.25, Seconds: 0.1, Waited: 0.005}, all[0])
	require.EqualValues(t, 1099, fine[row](t, b, exit.OK, "stats", "--since", "336h")[0].Calls+all[1].Calls-2)
	got := b.dedup(t, "stats")
	require.Empty(t, got.errOut)
	require.Equal(t, `refund
  calls         100
  ran           70
  duplicates    25 (25.0 %)
  on average    100 ms, of which 5 ms waiting for twins
'it'\''s'
  calls         1
  ran           1
  duplicates    0 (0.0 %)
  on average    250 ms, of which 0 µs waiting for twins
`, got.out)

	all = fine[row](t, b, exit.OK, "stats", "--by", "outcome")
	require.Len(t, all, 7)
	require.Equal(t, []any{"refund", "executed", int64(60)}, []any{all[0].Tool, all[0].Outcome, all[0].Calls})
	require.Contains(t, b.dedup(t, "stats", "--by", "outcome").out, "refund: unknown\n  calls         5\n")

	require.Contains(t, b.dedup(t, "stats", "--since", "10m").errOut, "No counts were recorded in the last 10 min.")
}
