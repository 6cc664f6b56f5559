package examiner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What only a package with several migrations meets.
func TestPendingProblems(t *testing.T) {
	t.Parallel()

	cat := &catalog{Schema: "public", Tables: map[string]*catalogTable{"tool_dedup": {Name: "public.tool_dedup"}}}
	for _, tc := range []struct {
		name    string
		applied []int64
		want    string // in the problem, empty if there is none
	}{
		{"NoVersionTable", nil, ""},
		{"None", []int64{}, "does not record the migration that makes it"},
		{"Some", []int64{1, 2}, "does not record migration 3, 4"},
		{"AllButTheLookalikes", []int64{1, 3, 4}, "does not record migration 2"},
		{"AllButTheTable", []int64{2, 3, 4}, "does not record the migration that makes it"},
		{"All", []int64{1, 2, 3, 4}, ""},
		{"More", []int64{1, 2, 3, 4, 5}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cat := *cat
			cat.Applied = tc.applied
			found := cat.pendingProblems([]int64{1, 2, 3, 4})
			if tc.want == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Equal(t, "migrations_pending", found[0].Name)
			require.Contains(t, found[0].What, tc.want)
		})
	}
}

func TestSameExpression(t *testing.T) {
	t.Parallel()

	require.True(t, sameExpression("\nCASE\n    WHEN (result IS NULL) THEN forget_at\n    ELSE expires_at\nEND", DueExpression))
	require.False(t, sameExpression("CASE WHEN (result IS NULL) THEN expires_at ELSE forget_at END", DueExpression))
}
