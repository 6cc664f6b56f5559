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
	look := func(context.Context, string) (string, bool, error) { return "", false, nil }
	const s = time.Second
	for name, test := range map[string]struct {
		call   runner.Call[string]
		pauses []time.Duration
		keyed  bool
	}{
		"Read":            {runner.Call[string]{Class: tool.ReadOnly}, []time.Duration{1 * s, 2 * s}, false},
		"Idempotent":      {runner.Call[string]{Class: tool.Idempotent}, []time.Duration{1 * s, 2 * s}, false},
		"IdempotentKeyed": {runner.Call[string]{Class: tool.Idempotent, Key: "k"}, []time.Duration{2 * s, 4 * s}, true},
		"Write":           {runner.Call[string]{Class: tool.Write}, []time.Duration{2 * s, 4 * s}, true},
		"Destructive":     {runner.Call[string]{Class: tool.Destructive}, []time.Duration{2 * s, 4 * s}, true},
		"Checked":         {runner.Call[string]{Class: tool.Write, Look: look}, []time.Duration{5 * s, 10 * s, 20 * s, 40 * s}, true},
		"Unkeyed":         {runner.Call[string]{Class: tool.Write, Unkeyed: true}, nil, false},
		"External":        {runner.Call[string]{Class: tool.External}, []time.Duration{2 * s, 4 * s}, true},
		"ExternalChecked": {runner.Call[string]{Class: tool.External, Look: look}, []time.Duration{5 * s, 10 * s, 20 * s, 40 * s}, true},
		"Unclassified":    {runner.Call[string]{Key: "k"}, nil, true},
		"Override":        {runner.Call[string]{Class: tool.Write, Policy: &runner.Policy{Tries: 2}}, []time.Duration{0}, true},
		"OverrideZero":    {runner.Call[string]{Class: tool.Write, Policy: &runner.Policy{}}, nil, true},
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
	result, err := runner.Do(t.Context(), b.Runner, runner.Call[string]{Tool: "t", Class: tool.Write}, s.try)
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
		call := runner.Call[string]{Tool: "t", Class: tool.Write, Policy: &runner.Policy{Tries: 2, First: time.Millisecond}}
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
		_, err := runner.Do(t.Context(), b.Runner, runner.Call[string]{Tool: "t", Class: tool.Write}, s.try)
		require.Same(t, answer, err)
		require.Len(t, s.keys, 1)
		require.Empty(t, b.clock.waited)
	}
}

func TestDoLooksBeforeEveryFurtherTry(t *testing.T) {
	t.Parallel()
	type look struct {
		found bool
		err   error
	}
	errLook := errors.New("no such report")
	for name, test := range map[string]struct {
		tries []error
		looks []look
		// What is to be seen.
		answer       string
		found        bool
		tried, asked int
		err          error
	}{
		"NotAfterSuccess":  {tries: nil, answer: "answer", tried: 1},
		"Found":            {tries: []error{io.EOF}, looks: []look{{found: true}}, answer: "looked up", found: true, tried: 1, asked: 1},
		"NotFound":         {tries: []error{io.EOF}, looks: []look{{}}, answer: "answer", tried: 2, asked: 1},
		"FoundLater":       {tries: []error{io.EOF, io.EOF}, looks: []look{{}, {found: true}}, answer: "looked up", found: true, tried: 2, asked: 2},
		"NoTryWithoutLook": {tries: []error{io.EOF}, looks: []look{{err: errBusy}, {err: errBusy}, {err: errBusy}, {err: errBusy}}, tried: 1, asked: 4, err: runner.ErrTriesUsedUp},
		"LookRecovers":     {tries: []error{io.EOF}, looks: []look{{err: errBusy}, {found: true}}, answer: "looked up", found: true, tried: 1, asked: 2},
		"LookIsHopeless":   {tries: []error{io.EOF}, looks: []look{{err: errLook}}, tried: 1, asked: 1, err: errLook},
		"LookRefuses":      {tries: []error{io.EOF}, looks: []look{{err: &dedup.RefusedError{}}}, tried: 1, asked: 1, err: dedup.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s, asked := setup(), failing(test.tries...), 0
			call := runner.Call[string]{Tool: "t", Class: tool.Write, Key: "k",
				Look: func(_ context.Context, key string) (string, bool, error) {
					require.Equal(t, "k", key)
					require.Less(t, asked, len(test.looks), "one look too many")
					asked++
					l := test.looks[asked-1]
					return "looked up", l.found, l.err
				}}
			result, err := runner.Do(t.Context(), b.Runner, call, s.try)
			require.Len(t, s.keys, test.tried)
			require.Equal(t, test.asked, asked)
			if test.err != nil {
				require.ErrorIs(t, err, test.err)
				require.Zero(t, result)
				return
			}
			require.NoError(t, err)
			require.Equal(t, runner.Result[string]{Value: test.answer, Key: "k", Tries: test.tried, Found: test.found}, result)
		})
	}
}

// What another process has begun is looked up before it is tried again.
func TestDoResumes(t *testing.T) {
	t.Parallel()
	call := func(found bool, asked *int) runner.Call[string] {
		return runner.Call[string]{Tool: "t", Class: tool.External, Key: "k", Resumed: true,
			Look: func(context.Context, string) (string, bool, error) {
				*asked++
				return "looked up", found, nil
			}}
	}
	asked, s := 0, failing()
	result, err := runner.Do(t.Context(), setup().Runner, call(true, &asked), s.try)
	require.NoError(t, err)
	require.Equal(t, runner.Result[string]{Value: "looked up", Key: "k", Found: true}, result)
	require.Empty(t, s.keys)

	asked = 0
	result, err = runner.Do(t.Context(), setup().Runner, call(false, &asked), s.try)
	require.NoError(t, err)
	require.Equal(t, runner.Result[string]{Value: "answer", Key: "k", Tries: 1}, result)
	require.Equal(t, 1, asked)

	// Whatever this process is told, the other one may have had its effect.
	denied := &runner.StatusError{Code: 401}
	_, err = runner.Do(t.Context(), setup().Runner, runner.Call[string]{Tool: "t", Class: tool.Write, Key: "k", Resumed: true}, failing(denied).try)
	require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
	require.ErrorIs(t, err, denied)
	_, err = runner.Do(t.Context(), setup().Runner, runner.Call[string]{Tool: "t", Class: tool.ReadOnly, Key: "k", Resumed: true}, failing(denied).try)
	require.Same(t, denied, err)
}

func TestDoObeysRetryAfter(t *testing.T) {
	t.Parallel()
	inFlight := &runner.StatusError{Code: 409, RetryAfter: 30 * time.Second}
	b, s := setup(), failing(fmt.Errorf("calling: %w", inFlight))
	_, err := runner.Do(t.Context(), b.Runner, runner.Call[string]{Tool: "t", Class: tool.Write}, s.try)
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
			_, err := runner.Do(ctx, b.Runner, runner.Call[string]{Tool: "t", Class: tool.Write}, s.try)
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
	call := runner.Call[string]{Tool: "t", Class: tool.Write}
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
	call := runner.Call[string]{Tool: "t", Class: tool.Write,
		Policy: &runner.Policy{Tries: 3, TryTimeout: time.Millisecond, Look: true},
		Look: func(ctx context.Context, _ string) (string, bool, error) {
			<-ctx.Done() // would hang without its own limit
			return "", false, ctx.Err()
		}}
	_, err := runner.Do(t.Context(), b.Runner, call, func(ctx context.Context, _ runner.Try) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	var gaveUp *runner.GaveUpError
	require.ErrorAs(t, err, &gaveUp)
	require.Equal(t, runner.ErrTriesUsedUp, gaveUp.Why)
	require.Len(t, gaveUp.Pauses, 2, "running out of a try's time is worth another")
	require.Equal(t, 1, gaveUp.Tries, "and none is made while every look fails")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestDoRefusesBadCalls(t *testing.T) {
	t.Parallel()
	look := func(context.Context, string) (string, bool, error) { return "", false, nil }
	for name, test := range map[string]struct {
		call  runner.Call[string]
		field string
	}{
		"NoTool":             {runner.Call[string]{Class: tool.Write}, "Tool"},
		"KeyForNone":         {runner.Call[string]{Tool: "t", Class: tool.Write, Unkeyed: true, Key: "k"}, "Key"},
		"LookForNone":        {runner.Call[string]{Tool: "t", Class: tool.Write, Unkeyed: true, Look: look}, "Look"},
		"ResumedWithoutKey":  {runner.Call[string]{Tool: "t", Class: tool.Write, Resumed: true}, "Key"},
		"UnkeyedWriteTwice":  {runner.Call[string]{Tool: "t", Class: tool.Write, Unkeyed: true, Policy: &runner.Policy{Tries: 2}}, "Policy.Tries"},
		"UnclassifiedTwice":  {runner.Call[string]{Tool: "t", Policy: &runner.Policy{Tries: 2}}, "Policy.Tries"},
		"ExternalTwice":      {runner.Call[string]{Tool: "t", Class: tool.External, Unkeyed: true, Policy: &runner.Policy{Tries: 2}}, "Policy.Tries"},
		"PolicyWithoutLook":  {runner.Call[string]{Tool: "t", Class: tool.Write, Policy: &runner.Policy{Tries: 2, Look: true}}, "Look"},
		"LookWithoutKey":     {runner.Call[string]{Tool: "t", Class: tool.ReadOnly, Look: look, Policy: &runner.Policy{Look: true}}, "Key"},
		"NonsensicalPolicy":  {runner.Call[string]{Tool: "t", Class: tool.Write, Policy: &runner.Policy{Tries: -1}}, "Policy.Tries"},
		"NonsensicalPolicy2": {runner.Call[string]{Tool: "t", Class: tool.Write, Policy: &runner.Policy{First: -1}}, "Policy"},
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
	_, err := runner.Do(t.Context(), nil, runner.Call[string]{}, failing().try)
	require.ErrorIs(t, err, dedup.ErrInvalid)
}
