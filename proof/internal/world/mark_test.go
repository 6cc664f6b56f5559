package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/world"
)

// What is marked by comparison is what the triggers mark, but for rows that are again as they
// were.
func TestMark(t *testing.T) {
	t.Parallel()
	tracked, untracked := setup(t), setup(t)
	require.NoError(t, world.Untrack(t.Context(), untracked))
	pristine := snapshot(t, untracked)
	for range 2 {
		makeAMess(t, tracked)
		makeAMess(t, untracked)
		for _, domain := range []string{"airline", "retail"} {
			unmarked, err := world.Changed(t.Context(), untracked, domain)
			require.NoError(t, err)
			require.Empty(t, unmarked)
		}
		require.NoError(t, world.Mark(t.Context(), untracked))
		require.NoError(t, world.Mark(t.Context(), untracked), "what is marked stays so")
		for _, domain := range []string{"airline", "retail"} {
			want, err := world.Changed(t.Context(), tracked, domain)
			require.NoError(t, err)
			require.NotEmpty(t, want)
			got, err := world.Changed(t.Context(), untracked, domain)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		require.NoError(t, world.Reset(t.Context(), tracked))
		require.NoError(t, world.Reset(t.Context(), untracked))
		require.Equal(t, pristine, snapshot(t, untracked))
	}
	require.NoError(t, world.Mark(t.Context(), untracked))
	state, err := world.Changed(t.Context(), untracked, "airline")
	require.NoError(t, err)
	require.Equal(t, recording.State{}, state)
}
