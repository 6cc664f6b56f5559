package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
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
		bounds []time.Duration
		keyed  bool
	}{
		"Read":            {runner.Call{Class: tool.ReadOnly}, []time.Duration{1 * s, 2 * s}, false},
		"ReadKeyed":       {runner.Call{Class: tool.ReadOnly, Key: "k"}, []time.Duration{1 * s, 2 * s}, true},
		"Idempotent":      {runner.Call{Class: tool.Idempotent}, []time.Duration{1 * s, 2 * s}, false},
		"IdempotentKeyed": {runner.Call{Class: tool.Idempotent, Key: "k"}, []time.Duration{1 * s, 2 * s}, true},
		"Write":           {runner.Call{Class: tool.Write}, []time.Duration{1 * s, 2 * s}, true},
		"Destructive":     {runner.Call{Class: tool.Destructive}, []time.Duration{1 * s, 2 * s}, true},
		"External":        {runner.Call{Class: tool.External}, []time.Duration{1 * s, 2 * s}, true},
		"Unclassified":    {runner.Call{Key: "k"}, nil, true},
		"UnknownClass":    {runner.Call{Class: tool.Class("other"), Key: "k"}, nil, true},
		"Once":            {runner.Call{Class: tool.Write, Tries: 1}, nil, true},
		"Override":        {runner.Call{Class: tool.Write, Tries: 5, Pause: 20 * s}, []time.Duration{20 * s, 40 * s, 60 * s, 60 * s}, true},
		"LongPause":       {runner.Call{Class: tool.Write, Pause: time.Hour}, []time.Duration{time.Hour, time.Hour}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := failing(errBusy, errBusy, errBusy, errBusy, errBusy, errBusy)
			test.call.Tool = "t"
			err := do(t, test.call, s)

			var gaveUp *runner.GaveUpError
			require.ErrorAs(t, err, &gaveUp)
			require.ErrorContains(t, err, "no try is left")
			require.ErrorIs(t, err, errBusy)
			require.Len(t, s.keys, len(test.bounds)+1)
			require.Equal(t, len(s.keys), gaveUp.Tries)
			require.Equal(t, test.keyed, gaveUp.Key != "")
			for i, pause := range s.pauses() {
				require.LessOrEqual(t, pause, test.bounds[i])
			}
			for _, key := range s.keys {
				require.Equal(t, gaveUp.Key, key, "one key for all tries")
			}
		})
	}
}

// An error that another try cannot repair is returned unchanged.
func TestDoReturnsTheToolsAnswer(t *testing.T) {
	t.Parallel()
	for _, answer := range []error{
		errors.New("connection reset by peer"), // by its text only
		&runner.StatusError{Code: 422},
		fmt.Errorf("booking: %w", &dedup.RefusedError{Message: "no seat is left"}),
		&dedup.Error{Kind: dedup.ErrKeyReused},
		&tool.ArgumentError{Tool: "w", Field: "blob", Reason: "cannot be read", Err: io.ErrUnexpectedEOF},
	} {
		s := failing(answer)
		require.Same(t, answer, do(t, runner.Call{Tool: "t", Class: tool.Write}, s))
		require.Len(t, s.keys, 1)
	}
}

// The random part follows Retry-After and leaves the next try half of the rest. Only a Retry-After
// beyond the deadline ends the call.
func TestDoPausesWithinTheDeadline(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, test := range map[string]struct {
		left       time.Duration
		retryAfter time.Duration
		most       time.Duration // 0: gives up
	}{
		"NoDeadline":         {0, 30 * s, 32 * s},
		"RetryAfterTooLong":  {10 * s, time.Minute, 0},
		"RetryAfterIsAll":    {s, s, 0},
		"RetryAfterFits":     {1500 * time.Millisecond, s, 1250 * time.Millisecond},
		"RetryAfterJustFits": {s + 1, s, s},
		"DrawCapped":         {1500 * time.Millisecond, 0, 750 * time.Millisecond},
		"DrawFits":           {4 * s, 0, 2 * s},
		"BothFit":            {14 * s, 10 * s, 12 * s},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, ctx := failing(fmt.Errorf("calling: %w", &runner.StatusError{Code: 503, RetryAfter: test.retryAfter})), t.Context()
				if test.left > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.left)
					defer cancel()
				}
				_, err := runner.Do(ctx, runner.Call{Tool: "t", Class: tool.Write}, s.try)
				if test.most > 0 {
					require.NoError(t, err)
					require.GreaterOrEqual(t, s.pauses()[0], test.retryAfter)
					require.LessOrEqual(t, s.pauses()[0], test.most)
					return
				}
				require.ErrorContains(t, err, "Retry-After outlasts the deadline: ")
				require.ErrorContains(t, err, test.left.String()+" are left")
				require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
				require.Len(t, s.keys, 1)
			})
		})
	}
}

// Without a deadline the longest wait for a server is an hour.
func TestDoWithoutADeadline(t *testing.T) {
	t.Parallel()
	for retryAfter, waits := range map[string]bool{"3600": true, "3601": false, "99999999999999999999": false} {
		resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {retryAfter}}}
		busy := runner.ResponseError(resp)
		s := failing(busy)
		err := do(t, runner.Call{Tool: "t", Class: tool.Write}, s)
		if waits {
			require.NoError(t, err)
			require.GreaterOrEqual(t, s.pauses()[0], time.Hour)
			continue
		}
		require.Len(t, s.keys, 1)
		var gaveUp *runner.GaveUpError
		require.ErrorAs(t, err, &gaveUp)
		require.ErrorContains(t, gaveUp.Why, "Retry-After exceeds an hour")
		require.True(t, gaveUp.Retryable(), "later")
		var status *runner.StatusError
		require.ErrorAs(t, err, &status)
		require.Same(t, busy, status, "with its RetryAfter")

		outer := failing(err)
		require.ErrorAs(t, do(t, runner.Call{Tool: "t", Class: tool.Write}, outer), &gaveUp)
		require.Len(t, outer.keys, 1, "a Do around it does not wait either")
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	t.Parallel()
	errStop := errors.New("the user went away")
	refused := &dedup.RefusedError{}
	for name, test := range map[string]struct {
		cancelAt time.Duration // 0: before the first try
		try      func(ctx context.Context) (string, error)
		tries    int
	}{
		"BeforeTheFirstTry": {0, failing().try, 0},
		"DuringATry":        {1, func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }, 1},
		"DuringAPause":      {1, failing(&runner.StatusError{Code: 503, RetryAfter: time.Hour}).try, 1},
		"AnAnswerCounts":    {1, func(ctx context.Context) (string, error) { <-ctx.Done(); return "", refused }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if test.cancelAt == 0 {
					cancel(errStop)
				}
				defer time.AfterFunc(test.cancelAt, func() { cancel(errStop) }).Stop()
				_, err := runner.Do(ctx, runner.Call{Tool: "t", Class: tool.Write}, test.try)
				if name == "AnAnswerCounts" {
					require.Same(t, refused, err)
					return
				}
				var gaveUp *runner.GaveUpError
				require.ErrorAs(t, err, &gaveUp)
				require.ErrorIs(t, gaveUp.Why, context.Canceled)
				require.ErrorIs(t, gaveUp.Why, errStop)
				require.Equal(t, test.tries, gaveUp.Tries)
				require.Equal(t, test.tries > 0, gaveUp.OutcomeUnknown)
				require.True(t, runner.IsRetryable(err))
			})
		})
	}
}

func TestDoRefusesBadCalls(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		call  runner.Call
		field string
	}{
		{runner.Call{Class: tool.Write}, "Tool"},
		{runner.Call{Tool: "t", Class: tool.Write, Resumed: true}, "Key"},
		{runner.Call{Tool: "t", Key: "k", Tries: 2}, "Tries"},
		{runner.Call{Tool: "t", Class: tool.Class("other"), Key: "k", Tries: 2}, "Tries"},
		{runner.Call{Tool: "t", Class: tool.Write, Tries: -1}, "Tries"},
		{runner.Call{Tool: "t", Class: tool.Write, Pause: -1}, "Pause"},
	} {
		s := failing()
		_, err := runner.Do(t.Context(), test.call, s.try)
		var invalid *dedup.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, test.field, invalid.Field)
		require.Empty(t, s.keys, "nothing is tried")
		require.False(t, runner.IsRetryable(err))
	}
}
