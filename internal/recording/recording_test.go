package recording

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSmall(t *testing.T) {
	t.Parallel()
	rec, err := Small()
	require.NoError(t, err)
	require.Equal(t, Counts{
		Sessions: 6, Calls: 30, Writes: 20, WriteErrors: 4, Reads: 7, Noops: 3, Injected: 1,
	}, rec.Counts())

	t.Run("UsesEveryWriteTool", func(t *testing.T) {
		t.Parallel()
		tools := map[string]bool{}
		for _, session := range rec.Sessions {
			for _, call := range session.Calls {
				if call.Class == Write && !call.IsError {
					tools[call.Tool] = true
				}
			}
		}
		require.Len(t, tools, 13)
	})
	t.Run("ReusesAnIDInOneSession", func(t *testing.T) {
		t.Parallel()
		session := rec.Sessions[2]
		require.Equal(t, session.Calls[2].ToolCallID, session.Calls[3].ToolCallID)
		require.NotEqual(t, session.Calls[2].Turn, session.Calls[3].Turn)
		require.NotEqual(t, session.Calls[2].Result, session.Calls[3].Result)
	})
	t.Run("HasALegitimateSecondCall", func(t *testing.T) {
		t.Parallel()
		session := rec.Sessions[1]
		require.JSONEq(t, string(session.Calls[2].Arguments), string(session.Calls[4].Arguments))
		require.NotEqual(t, session.Calls[2].ToolCallID, session.Calls[4].ToolCallID)
		require.NotEqual(t, session.Calls[2].Result, session.Calls[4].Result)
	})
}
