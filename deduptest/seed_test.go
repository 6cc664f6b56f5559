package deduptest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRandomFollowsFromSeedAndScenario(t *testing.T) {
	t.Parallel()
	first := randomFor(17, AnswerLost).Uint64()
	require.Equal(t, first, randomFor(17, AnswerLost).Uint64())
	require.NotEqual(t, first, randomFor(18, AnswerLost).Uint64())
	require.NotEqual(t, first, randomFor(17, NotExecuted).Uint64())
}
