package mcpdedup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool/runner"
)

// Package runner knows the codes by which a call may be made again, though it cannot use this
// package's names for them.
func TestRunnerKnowsTheCodes(t *testing.T) {
	t.Parallel()
	for code, again := range map[mcpdedup.Code]bool{
		mcpdedup.CodeInFlight: true, mcpdedup.CodeOutcomeUnknown: true, mcpdedup.CodeUnavailable: true, mcpdedup.CodeTimeout: true,
		mcpdedup.CodeKeyRequired: false, mcpdedup.CodeKeyInvalid: false, mcpdedup.CodeKeyReused: false, mcpdedup.CodeArgumentsInvalid: false,
		mcpdedup.CodeExpired: false, mcpdedup.CodeRefused: false, mcpdedup.CodeBlocked: false,
		mcpdedup.CodeUnidentified: false, mcpdedup.CodeSessionRequired: false, mcpdedup.CodeUnclassified: false, mcpdedup.CodeFailed: false,
	} {
		err := runner.ResultError(true, map[string]any{mcpdedup.MetaError: string(code), mcpdedup.MetaRetryAfter: 7})
		require.Equal(t, again, runner.IsRetryable(err), code)
	}
	var status *runner.StatusError
	require.ErrorAs(t, runner.ResultError(false, map[string]any{mcpdedup.MetaRetryAfter: 7}), &status)
	require.Equal(t, mcpdedup.MetaKey, runner.MetaKey)
}
