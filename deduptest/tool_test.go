package deduptest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestChangedOptionsLeaveTheOthers(t *testing.T) {
	t.Parallel()
	once := func(o *dedup.Options) { o.Retry.MaxAttempts = 1 }
	require.Equal(t, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 1}}, Tool{}.with(once).Options)
	given := Tool{Options: &dedup.Options{MaxWait: -1, Retry: dedup.RetryPolicy{MaxAttempts: 5, BaseDelay: 7}}}
	require.Equal(t, &dedup.Options{MaxWait: -1, Retry: dedup.RetryPolicy{MaxAttempts: 1, BaseDelay: 7}}, given.with(once).Options)
	require.Equal(t, 5, given.Options.Retry.MaxAttempts, "the caller's own options are as they were")
}

// failing is a TB that keeps errors.
type failing struct {
	TB
	errors int
}

func (*failing) Helper()                  {}
func (*failing) Context() context.Context { return context.Background() }
func (f *failing) Errorf(string, ...any)  { f.errors++ }

func TestAScenarioWithoutFaultsFails(t *testing.T) {
	t.Parallel()
	var r Report
	var tb failing
	r.add(&tb, Cancelled, func(context.Context, *ScenarioReport) {})
	require.Equal(t, []string{"nothing was tested"}, r.Scenarios[0].Failures)
	require.Equal(t, 1, tb.errors)
}
