package deduptest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAScenarioWithoutFaultsFails(t *testing.T) {
	t.Parallel()
	idle := play{Cancelled, func(*scene) {}}
	out := (&verification{}).perform(t.Context(), idle)
	require.Equal(t, []string{"nothing was tested"}, out.Failures)
}
