package mcpdedup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool/runner"
)

// Package runner knows the codes by which a call may be made again.
func TestRunnerKnowsTheCodes(t *testing.T) {
	t.Parallel()
	for code, again := range map[door.Code]bool{
		door.InFlight: true, door.OutcomeUnknown: true, door.Unavailable: true, door.Timeout: true,
		door.KeyRequired: false, door.KeyInvalid: false, door.KeyReused: false, door.ArgumentsInvalid: false,
		door.Expired: false, door.Refused: false, door.Blocked: false,
		door.Unidentified: false, door.Failed: false,
	} {
		err := runner.ResultError(true, map[string]any{door.MetaError: string(code), door.MetaRetryAfter: 7})
		require.Equal(t, again, runner.IsRetryable(err), code)
	}
	var status *runner.StatusError
	require.ErrorAs(t, runner.ResultError(false, map[string]any{door.MetaRetryAfter: 7}), &status)
}
