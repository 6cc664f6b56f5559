package deduptest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestOnceLeavesTheOtherOptions(t *testing.T) {
	t.Parallel()
	require.Equal(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 1}}, Tool{}.once().Options)
	given := Tool{Options: &dedup.Options{MaxWait: -1, Retry: dedup.RetryPolicy{MaxAttempts: 5, BaseDelay: 7}}}
	once := given.once()
	require.Equal(t, &dedup.Options{MaxWait: -1, Retry: dedup.RetryPolicy{MaxAttempts: 1, BaseDelay: 7}}, once.Options)
	require.Equal(t, 5, given.Options.Retry.MaxAttempts, "the caller's own options are as they were")
}

func TestAScenarioWithoutFaultsFails(t *testing.T) {
	t.Parallel()
	idle := play{Cancelled, func(*scene) {}}
	out := (&verification{}).perform(t.Context(), idle)
	require.Equal(t, []string{"nothing was tested"}, out.Failures)
}
