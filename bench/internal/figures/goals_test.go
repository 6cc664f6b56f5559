package figures

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGoals holds the library to the goals that it has reached: its files stand in layers,
// but for a few that need each other.
func TestGoals(t *testing.T) {
	t.Parallel()
	lib, err := load(t.Context(), "../../..")
	require.NoError(t, err)
	require.LessOrEqual(t, len(Knot(Uses(lib.fset, lib.packages[0]))), goalKnot)
	require.LessOrEqual(t, errorNames(lib.packages[0].Types), goalErrors)
}
