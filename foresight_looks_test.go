package dedup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestForesightLooks: only a fast statement of a patient call is run without a look,
// and only after a hundred first calls in a row.
func TestForesightLooks(t *testing.T) {
	t.Parallel()

	const fast = time.Millisecond
	patient := &request{}
	f := &foresight{slow: slowStatement}
	for lock := range int64(calm) {
		require.True(t, f.looks(fast, patient))
		f.meet(lock, true)
	}
	require.False(t, f.looks(fast, patient))
	require.False(t, f.looks(slowStatement-1, patient))
	require.True(t, f.looks(slowStatement, patient), "slow")
	require.True(t, f.looks(0, patient), "unknown, or failed")
	for _, wait := range []time.Duration{-1, time.Hour} {
		require.True(t, f.looks(fast, &request{maxWait: wait}))
	}
	f.meet(calm, false)
	require.True(t, f.looks(fast, patient), "after a replay")

	require.True(t, f.met(calm))
	f.meet(calm+int64(len(f.locks)), true)
	require.False(t, f.met(calm), "its place was taken")
}
