package runner_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool/runner"
)

func TestGRPCError(t *testing.T) {
	t.Parallel()
	require.NoError(t, runner.GRPCError(0, time.Second, nil))
	cause := errors.New("rpc error")
	passes := map[uint32]bool{1: true, 2: true, 4: true, 8: true, 13: true, 14: true, 15: true, 17: true}
	for code := uint32(1); code <= 17; code++ {
		err := runner.GRPCError(code, 0, cause)
		require.ErrorIs(t, err, cause)
		require.Equal(t, passes[code], runner.IsRetryable(err), "code %d", code)
	}
	aborted := runner.GRPCError(10, time.Second, cause)
	require.True(t, runner.IsRetryable(aborted))
	var status *runner.StatusError
	require.ErrorAs(t, aborted, &status)
	require.Equal(t, time.Second, status.RetryAfter)
	require.ErrorAs(t, runner.GRPCError(14, -1, cause), &status)
	require.Zero(t, status.RetryAfter)
}
