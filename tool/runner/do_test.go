package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

func TestDoTriesByClass(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, test := range map[string]struct {
		call   runner.Call
		pauses []time.Duration
		keyed  bool
	}{
		"Read":            {runner.Call{Class: tool.ReadOnly}, []time.Duration{1 * s, 2 * s}, false},
		"Idempotent":      {runner.Call{Class: tool.Idempotent}, []time.Duration{1 * s, 2 * s}, false},
		"IdempotentKeyed": {runner.Call{Class: tool.Idempotent, Key: "k"}, []time.Duration{2 * s, 4 * s}, true},
		"Write":           {runner.Call{Class: tool.Write}, []time.Duration{2 * s, 4 * s}, true},
		"Destructive":     {runner.Call{Class: tool.Destructive}, []time.Duration{2 * s, 4 * s}, true},
		"Unkeyed":         {runner.Call{Class: tool.Write, Unkeyed: true}, nil, false},
		"External":        {runner.Call{Class: tool.External}, []time.Duration{2 * s, 4 * s}, true},
		"Unclassified":    {runner.Call{Key: "k"}, nil, true},
		"Override":        {runner.Call{Class: tool.Write, Policy: &runner.Policy{Tries: 2}}, []time.Duration{0}, true},
		"OverrideZero":    {runner.Call{Class: tool.Write, Policy: &runner.Policy{}}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := setup(), failing(errBusy, errBusy, errBusy, errBusy, errBusy, errBusy)
			test.call.Tool = "t"
			_, err := runner.Do(t.Context(), b.Runner, test.call, s.try)

			var gaveUp *runner.GaveUpError
			require.ErrorAs(t, err, &gaveUp)
			require.ErrorIs(t, err, runner.ErrGaveUp)
			require.ErrorIs(t, err, runner.ErrTriesUsedUp)
			require.ErrorIs(t, err, errBusy)
			require.Equal(t, test.pauses, gaveUp.Pauses)
			require.Equal(t, test.pauses, b.clock.waited)
			require.Equal(t, len(test.pauses)+1, gaveUp.Tries)
			require.Len(t, s.keys, gaveUp.Tries)
			require.Equal(t, test.keyed, gaveUp.Key != "")
			require.Len(t, b.events, len(test.pauses))
		})
	}
}

func TestDoAnswers(t *testing.T) {
	t.Parallel()
	b, s := setup(), failing(io.EOF, errBusy)
	result, err := runner.Do(t.Context(), b.Runner, runner.Call{Tool: "t", Class: tool.Write}, s.try)
	require.NoError(t, err)
	require.Equal(t, runner.Result[string]{Value: "answer", Key: s.keys[0], Tries: 3}, result)

	require.Equal(t, []string{result.Key, result.Key, result.Key}, s.keys, "one key for all tries")
	require.Equal(t, s.keys, s.ctx, "and the context carries it")
	hash := dedup.KeyHash(result.Key)
	require.Equal(t, []runner.Event{
		{Tool: "t", KeyHash: hash, Tries: 1, Pause: 2 * time.Second, Err: io.EOF},
		{Tool: "t", KeyHash: hash, Tries: 2, Pause: 4 * time.Second, Err: errBusy},
	}, b.events)
}

func TestDoWithNothingInjected(t *testing.T) {
	t.Parallel()
	for _, r := range []*runner.Runner{nil, {}} {
		s := failing(errBusy)
		call := runner.Call{Tool: "t", Class: tool.Write, Policy: &runner.Policy{Tries: 2, First: time.Millisecond}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		result, err := runner.Do(ctx, r, call, s.try)
		require.NoError(t, err)
		require.Equal(t, 2, result.Tries)
	}
}

// What another try cannot repair comes back as it is.
func TestDoReturnsTheToolsAnswer(t *testing.T) {
	t.Parallel()
	for _, answer := range []error{
		errors.New("connection reset by peer"), // only reads like it
		&runner.StatusError{Code: 422},
		fmt.Errorf("booking: %w", &dedup.RefusedError{Message: "no seat is left"}),
		&dedup.Error{Answer: dedup.ErrKeyReused},
	} {
		b, s := setup(), failing(answer)
		_, err := runner.Do(t.Context(), b.Runner, runner.Call{Tool: "t", Class: tool.Write}, s.try)
		require.Same(t, answer, err)
		require.Len(t, s.keys, 1)
		require.Empty(t, b.clock.waited)
	}
}

// Whatever this process is told, the one that began the call may have had its effect.
func TestDoResumes(t *testing.T) {
	t.Parallel()
	denied := &runner.StatusError{Code: 401}
	_, err := runner.Do(t.Context(), setup().Runner, runner.Call{Tool: "t", Class: tool.Write, Key: "k", Resumed: true}, failing(denied).try)
	require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
	require.ErrorIs(t, err, denied)
	_, err = runner.Do(t.Context(), setup().Runner, runner.Call{Tool: "t", Class: tool.ReadOnly, Key: "k", Resumed: true}, failing(denied).try)
	require.Same(t, denied, err)
}

func TestDoObeysRetryAfter(t *testing.T) {
	t.Parallel()
	inFlight := &runner.StatusError{Code: 409, RetryAfter: 30 * time.Second}
	b, s := setup(), failing(fmt.Errorf("calling: %w", inFlight))
	_, err := runner.Do(t.Context(), b.Runner, runner.Call{Tool: "t", Class: tool.Write}, s.try)
	require.NoError(t, err)
	require.Equal(t, []time.Duration{32 * time.Second}, b.clock.waited, "the draw comes on top")
}

// The longest draw leaves the next try half of the time behind Retry-After. Only a
// Retry-After that does not end before the deadline ends the call.
func TestDoPausesWithinTheDeadline(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		left       time.Duration
		retryAfter time.Duration
		pause      time.Duration // 0: gives up
	}{
		"RetryAfterTooLong":  {10 * time.Second, time.Minute, 0},
		"RetryAfterIsAll":    {time.Second, time.Second, 0},
		"RetryAfterFits":     {1500 * time.Millisecond, time.Second, 1250 * time.Millisecond},
		"RetryAfterJustFits": {time.Second + 1, time.Second, time.Second},
		"DrawCapped":         {1500 * time.Millisecond, 0, 750 * time.Millisecond},
		"DrawFits":           {4 * time.Second, 0, 2 * time.Second},
		"BothFit":            {14 * time.Second, 10 * time.Second, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s := setup(), failing(&runner.StatusError{Code: 503, RetryAfter: test.retryAfter})
			ctx, cancel := context.WithDeadline(t.Context(), b.clock.Now().Add(test.left))
			defer cancel()
			_, err := runner.Do(ctx, b.Runner, runner.Call{Tool: "t", Class: tool.Write}, s.try)
			if test.pause > 0 {
				require.NoError(t, err)
				require.Equal(t, []time.Duration{test.pause}, b.clock.waited)
				return
			}
			var gaveUp *runner.GaveUpError
			require.ErrorAs(t, err, &gaveUp)
			require.ErrorIs(t, gaveUp.Why, runner.ErrWaitTooLong)
			require.ErrorContains(t, err, test.left.String()+" are left")
			require.Len(t, s.keys, 1)
			require.Empty(t, b.clock.waited)
			require.Empty(t, b.events)
		})
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	t.Parallel()
	call := runner.Call{Tool: "t", Class: tool.Write}
	errStop := errors.New("the user went away")
	ended := func(t *testing.T, err error, tries int) {
		var gaveUp *runner.GaveUpError
		require.ErrorAs(t, err, &gaveUp)
		require.ErrorIs(t, gaveUp.Why, context.Canceled)
		require.ErrorIs(t, gaveUp.Why, errStop)
		require.Equal(t, tries, gaveUp.Tries)
		require.Equal(t, tries > 0, gaveUp.OutcomeUnknown)
	}

	t.Run("BeforeTheFirstTry", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStop)
		b, s := setup(), failing()
		_, err := runner.Do(ctx, b.Runner, call, s.try)
		ended(t, err, 0)
		require.Empty(t, s.keys)
	})
	t.Run("DuringATry", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		b := setup()
		_, err := runner.Do(ctx, b.Runner, call, func(ctx context.Context, _ runner.Try) (string, error) {
			cancel(errStop)
			<-ctx.Done()
			return "", ctx.Err()
		})
		ended(t, err, 1)
		require.Empty(t, b.clock.waited)
	})
	t.Run("DuringAPause", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		b, s := setup(), failing(io.EOF)
		b.clock.stuck = true
		done := make(chan error, 1)
		go func() {
			_, err := runner.Do(ctx, b.Runner, call, s.try)
			done <- err
		}()
		<-b.clock.waiting
		cancel(errStop)
		ended(t, <-done, 1)
	})
	t.Run("AnAnswerStillCounts", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		refused := &dedup.RefusedError{}
		_, err := runner.Do(ctx, setup().Runner, call, func(context.Context, runner.Try) (string, error) {
			cancel(errStop)
			return "", refused
		})
		require.Same(t, refused, err)
	})
}

func TestDoBoundsEachTry(t *testing.T) {
	t.Parallel()
	b := setup()
	call := runner.Call{Tool: "t", Class: tool.Write,
		Policy: &runner.Policy{Tries: 3, TryTimeout: time.Millisecond}}
	_, err := runner.Do(t.Context(), b.Runner, call, func(ctx context.Context, _ runner.Try) (string, error) {
		<-ctx.Done() // would hang without its own limit
		return "", ctx.Err()
	})
	var gaveUp *runner.GaveUpError
	require.ErrorAs(t, err, &gaveUp)
	require.Equal(t, runner.ErrTriesUsedUp, gaveUp.Why)
	require.Len(t, gaveUp.Pauses, 2, "running out of a try's time is worth another")
	require.Equal(t, 3, gaveUp.Tries)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestDoRefusesBadCalls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call  runner.Call
		field string
	}{
		"NoTool":             {runner.Call{Class: tool.Write}, "Tool"},
		"KeyForNone":         {runner.Call{Tool: "t", Class: tool.Write, Unkeyed: true, Key: "k"}, "Key"},
		"ResumedWithoutKey":  {runner.Call{Tool: "t", Class: tool.Write, Resumed: true}, "Key"},
		"UnkeyedWriteTwice":  {runner.Call{Tool: "t", Class: tool.Write, Unkeyed: true, Policy: &runner.Policy{Tries: 2}}, "Policy.Tries"},
		"UnclassifiedTwice":  {runner.Call{Tool: "t", Policy: &runner.Policy{Tries: 2}}, "Policy.Tries"},
		"ExternalTwice":      {runner.Call{Tool: "t", Class: tool.External, Unkeyed: true, Policy: &runner.Policy{Tries: 2}}, "Policy.Tries"},
		"NonsensicalPolicy":  {runner.Call{Tool: "t", Class: tool.Write, Policy: &runner.Policy{Tries: -1}}, "Policy.Tries"},
		"NonsensicalPolicy2": {runner.Call{Tool: "t", Class: tool.Write, Policy: &runner.Policy{First: -1}}, "Policy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := failing()
			_, err := runner.Do(t.Context(), nil, test.call, s.try)
			var invalid *dedup.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, test.field, invalid.Field)
			require.Empty(t, s.keys, "nothing is tried")
			require.False(t, runner.IsRetryable(err))
		})
	}
	_, err := runner.Do(t.Context(), nil, runner.Call{}, failing().try)
	require.ErrorIs(t, err, dedup.ErrInvalid)
}
