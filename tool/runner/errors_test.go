package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool/runner"
)

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	const key = "customer 4711"
	hash := dedup.KeyHash(key)
	cause := errors.New("cause")
	for want, err := range map[string]error{
		"runner: gave up on pay before the first try: context canceled": &runner.GaveUpError{
			Tool: "pay", Why: context.Canceled},
		"runner: gave up on pay (key " + hash + ") after 1 try; it may have taken effect: call again with the same key: no try is left: cause": &runner.GaveUpError{
			Tool: "pay", Key: key, Tries: 1, OutcomeUnknown: true, Why: runner.ErrTriesUsedUp, Err: cause},
		"runner: gave up on pay after 3 tries; it may have taken effect: look before you repeat it: cause": &runner.GaveUpError{
			Tool: "pay", Tries: 3, OutcomeUnknown: true, Err: cause},
		"runner: header Idempotency-Key has key aa already, and the context carries key bb; let one layer make the key": &runner.KeyConflictError{
			Where: "header Idempotency-Key", There: "aa", Carried: "bb"},
		"runner: _meta x has something that is no key already, and the context carries key bb; let one layer make the key": &runner.KeyConflictError{
			Where: "_meta x", Carried: "bb"},
		`runner: plan: step "pay": its key has not been saved; save the plan before the first try`: &runner.PlanError{
			Step: "pay", Err: runner.ErrStepUnsaved},
		"runner: plan: saving it: cause":     &runner.PlanError{Reason: "saving it", Err: cause},
		"runner: the answer was lost: cause": &runner.LostAnswerError{Err: cause},
	} {
		require.EqualError(t, err, want)
		require.NotContains(t, err.Error(), key)
	}
}

func TestErrorsMatch(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	require.ErrorIs(t, &runner.KeyConflictError{}, runner.ErrKeyConflict)
	require.ErrorIs(t, &runner.PlanError{Err: cause}, runner.ErrPlan)
	require.ErrorIs(t, &runner.PlanError{Err: cause}, cause)
	require.ErrorIs(t, &runner.LostAnswerError{Err: cause}, cause)

	gaveUp := &runner.GaveUpError{Err: cause, OutcomeUnknown: true}
	require.ErrorIs(t, gaveUp, runner.ErrGaveUp)
	require.ErrorIs(t, gaveUp, cause)
	require.NotErrorIs(t, gaveUp, dedup.ErrOutcomeUnknown, "there is no key to call again with")
	gaveUp.Key = "k"
	require.ErrorIs(t, gaveUp, dedup.ErrOutcomeUnknown)
	gaveUp.OutcomeUnknown = false
	require.NotErrorIs(t, gaveUp, dedup.ErrOutcomeUnknown)
	require.Empty(t, (&runner.GaveUpError{}).Unwrap())
}
