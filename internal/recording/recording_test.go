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
		require.False(t, Equal(session.Calls[2].Result, session.Calls[3].Result))
	})
	t.Run("HasALegitimateSecondCall", func(t *testing.T) {
		t.Parallel()
		session := rec.Sessions[1]
		require.True(t, EqualJSON(session.Calls[2].Arguments, session.Calls[4].Arguments))
		require.NotEqual(t, session.Calls[2].ToolCallID, session.Calls[4].ToolCallID)
		require.False(t, Equal(session.Calls[2].Result, session.Calls[4].Result))
	})
	t.Run("KeepsTheOrderOfRows", func(t *testing.T) {
		t.Parallel()
		var ids []string
		for _, row := range rec.Tables["airline_flights"] {
			ids = append(ids, row.ID)
		}
		require.Equal(t, []string{"QX101", "QX102", "QX202", "QX203", "QX303"}, ids)
	})
}

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
