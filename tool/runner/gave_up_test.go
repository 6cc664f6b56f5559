package runner_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

func TestGaveUpText(t *testing.T) {
	t.Parallel()
	const key = "customer 4711"
	for _, test := range []struct {
		call    runner.Call
		want    string
		unknown bool // matches dedup.ErrOutcomeUnknown
	}{
		{runner.Call{Class: tool.Write, Key: key, Tries: 1}, "runner: gave up on pay (key " + dedup.KeyHash(key) + ") after 1 try; it may have taken effect: call again with the same key: no try is left: runner: status 503 (Service Unavailable)", true},
		{runner.Call{Class: tool.Unclassified}, "runner: gave up on pay after 1 try; it may have taken effect: look before you repeat it: no try is left: runner: status 503 (Service Unavailable)", false},
		{runner.Call{Class: tool.Unclassified, Key: key}, "runner: gave up on pay (key " + dedup.KeyHash(key) + ") after 1 try; it may have taken effect: look before you repeat it: no try is left: runner: status 503 (Service Unavailable)", false},
		{runner.Call{Class: tool.ReadOnly}, "runner: gave up on pay after 3 tries: no try is left: runner: status 503 (Service Unavailable)", false},
	} {
		test.call.Tool = "pay"
		err := do(t, test.call, failing(errBusy, errBusy, errBusy))
		require.EqualError(t, err, test.want)
		require.Equal(t, test.unknown, errors.Is(err, dedup.ErrOutcomeUnknown))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := runner.Do(ctx, runner.Call{Tool: "pay"}, failing().try)
	require.EqualError(t, err, "runner: gave up on pay before the first try: context canceled")
	require.Empty(t, (&runner.GaveUpError{}).Unwrap())
}

// TestExternalInFlight: a call in flight is repeated with the same key, in this process and over
// HTTP.
func TestExternalInFlight(t *testing.T) {
	t.Parallel()
	for _, class := range []tool.Class{tool.External, tool.Destructive} {
		s := failing(&dedup.Error{Kind: dedup.ErrInFlight}, &runner.StatusError{Code: 202, RetryAfter: 5 * time.Second})
		require.NoError(t, do(t, runner.Call{Tool: "charge", Class: class, Key: "k"}, s))
		require.Equal(t, []string{"k", "k", "k"}, s.keys)
		require.GreaterOrEqual(t, s.pauses()[1], 5*time.Second)
	}
}

// TestExternalParked: a parked operation is not retried, can be found by its type, and is not
// reported as failed to a caller that would use a new key.
func TestExternalParked(t *testing.T) {
	t.Parallel()
	parked := &external.ParkedError{Operation: external.Operation{Tool: "charge", Key: "k", State: external.StateParked}}
	s := failing(parked)
	err := do(t, runner.Call{Tool: "charge", Class: tool.External, Key: "k"}, s)
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
	err = do(t, runner.Call{Tool: "order", Class: tool.Write, Key: "k"}, s)
	require.Len(t, s.keys, 1)
	require.ErrorAs(t, err, &gaveUp)
	require.True(t, gaveUp.OutcomeUnknown)
}
