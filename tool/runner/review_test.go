package runner_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// Where a key does not make another try safe, no error says that it does.
func TestAKeyThatDoesNotSuffice(t *testing.T) {
	t.Parallel()
	for _, class := range []tool.Class{tool.Class(99), tool.Unclassified} {
		s := failing(io.EOF)
		_, err := runner.Do(t.Context(), setup().Runner, runner.Call{Tool: "mail", Class: class, Key: "k"}, s.try)
		var gaveUp *runner.GaveUpError
		require.ErrorAs(t, err, &gaveUp)
		require.True(t, gaveUp.OutcomeUnknown)
		require.False(t, gaveUp.Retryable())
		require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown, class)
		require.False(t, dedup.IsRetryable(err), class)
		require.NotContains(t, err.Error(), "call again with the same key", class)
		require.Contains(t, err.Error(), "look before you repeat it", class)
	}
}

// Arguments that do not fit will not fit the next time, whatever their type said.
func TestArgumentsAreNotTriedAgain(t *testing.T) {
	t.Parallel()
	s := failing(&tool.ArgumentError{Tool: "w", Field: "blob", Reason: "cannot be read", Err: io.ErrUnexpectedEOF})
	_, err := runner.Do(t.Context(), setup().Runner, runner.Call{Tool: "w", Class: tool.Write, Key: "k"}, s.try)
	require.Equal(t, s.errs[0], err)
	require.Len(t, s.keys, 1)
}

// Two spellings of a member are the member given twice.
func TestPlanWithStepsTwice(t *testing.T) {
	t.Parallel()
	_, err := runner.LoadPlan([]byte(`{"version":1,"steps":{"pay":"k1"},"Steps":{"pay":"k2"}}`))
	require.ErrorIs(t, err, runner.ErrPlan)
}
