package runner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// TestExternalInFlight: what is in flight is asked for again with the same key, in this process
// and over HTTP.
func TestExternalInFlight(t *testing.T) {
	t.Parallel()
	for _, class := range []tool.Class{tool.External, tool.Destructive} {
		b, s := setup(), failing(&dedup.Error{Answer: dedup.ErrInFlight}, &runner.StatusError{Code: 202, RetryAfter: 5 * time.Second})
		result, err := runner.Do(t.Context(), b.Runner, runner.Call{Tool: "charge", Class: class}, s.try)
		require.NoError(t, err)
		require.Equal(t, 3, result.Tries)
		require.Equal(t, []string{result.Key, result.Key, result.Key}, s.keys)
		require.GreaterOrEqual(t, b.clock.waited[1], 5*time.Second)
	}
}

// TestExternalParked: what is parked is not tried again, is found by its type, and is not
// taken for failed by whoever would call with a new key.
func TestExternalParked(t *testing.T) {
	t.Parallel()
	parked := &external.ParkedError{Operation: external.Operation{Tool: "charge", Key: "k", State: external.Parked}}
	s := failing(parked)
	_, err := runner.Do(t.Context(), setup().Runner, runner.Call{Tool: "charge", Class: tool.External, Key: "k"}, s.try)
	require.Equal(t, []string{"k"}, s.keys)
	var found *external.ParkedError
	require.ErrorAs(t, err, &found)
	require.Same(t, parked, found)
	var gaveUp *runner.GaveUpError
	require.ErrorAs(t, err, &gaveUp)
	require.True(t, gaveUp.OutcomeUnknown)
	require.Equal(t, "k", gaveUp.Key)
	require.False(t, runner.IsRetryable(err), "a Do around it does not try either")
	require.ErrorContains(t, err, "do not repeat it with a new key")

	s = failing(err)
	_, err = runner.Do(t.Context(), setup().Runner, runner.Call{Tool: "order", Class: tool.Write, Key: "k"}, s.try)
	require.Len(t, s.keys, 1)
	require.ErrorAs(t, err, &gaveUp)
	require.True(t, gaveUp.OutcomeUnknown)
}
