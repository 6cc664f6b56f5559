package scale

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

func TestSweepCases(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), t.Context()
	pool, err := s.pool(ctx, 4)
	require.NoError(t, err)
	defer pool.Close()
	o := SweepOptions{Rate: 100, Clients: 2, Cases: SweepCaseOptions{Records: 8000, Time: 600 * time.Millisecond, Rounds: 2}}
	rows, err := s.sweepCases(ctx, pool, o)
	require.NoError(t, err)

	require.Len(t, rows, 4)
	for _, row := range rows {
		require.Positive(t, row.Forgotten, row.Case)
		require.Positive(t, row.Firsts.Quiet.Calls, row.Case)
		require.Positive(t, row.Firsts.During.Calls, row.Case)
		require.Positive(t, row.Anews.Quiet.Calls, row.Case)
		require.Positive(t, row.Anews.During.Calls, row.Case)
		require.Zero(t, row.InFlight, row.Case)
		require.Equal(t, row.Case == SlowArchive, row.Held.Calls > 0, row.Case)
	}
	r := Sweep{Cases: rows}
	require.NoError(t, r.verdict())
	var out bytes.Buffer
	r.write(&out)
	require.Contains(t, out.String(), LockedRows)
	require.Contains(t, out.String(), "used an identity of a batch anew")
}

func TestSweepCaseGoals(t *testing.T) {
	t.Parallel()

	p99 := func(ms int) measure.Latency { return measure.Latency{P99: time.Duration(ms) * time.Millisecond} }
	rows := []SweepCaseRow{{
		Case:   TwoSweepers,
		Firsts: Beside{Quiet: p99(2), During: p99(4)}, Anews: Beside{Quiet: p99(2), During: p99(5)}, InFlight: 1,
	}}
	var met []bool
	for _, goal := range caseGoals(rows) {
		met = append(met, goal.Met)
	}
	require.Equal(t, []bool{true, false, false}, met)
	r := Sweep{Cases: rows}
	require.ErrorContains(t, r.verdict(), "1 calls without a twin")
}
