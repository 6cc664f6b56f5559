package runner_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool/runner"
)

func TestResultError(t *testing.T) {
	t.Parallel()
	const code, wait = "io.github.tooldedup/error", "io.github.tooldedup/retry-after"
	for name, test := range map[string]struct {
		isError bool
		meta    map[string]any
		want    error
	}{
		"Answer":      {false, map[string]any{"duplicate": true}, nil},
		"NoMeta":      {false, nil, nil},
		"Running":     {false, map[string]any{wait: 5.0}, &runner.StatusError{Code: 202, RetryAfter: 5 * time.Second}},
		"InFlight":    {true, map[string]any{code: "in_flight", wait: 5}, &runner.StatusError{Code: 409, RetryAfter: 5 * time.Second}},
		"InFlightNow": {true, map[string]any{code: "in_flight"}, &runner.StatusError{Code: 409, RetryAfter: time.Second}},
		"Number":      {true, map[string]any{code: "unavailable", wait: json.Number("2")}, &runner.StatusError{Code: 503, RetryAfter: 2 * time.Second}},
		"Unknown":     {true, map[string]any{code: "outcome_unknown"}, &runner.StatusError{Code: 503}},
		"Timeout":     {true, map[string]any{code: "timeout"}, &runner.StatusError{Code: 504}},
		"Odd":         {true, map[string]any{code: "unavailable", wait: math.Inf(1)}, &runner.StatusError{Code: 503}},
		"NaN":         {true, map[string]any{code: "unavailable", wait: math.NaN()}, &runner.StatusError{Code: 503}},
		"Refused":     {true, map[string]any{code: "refused"}, &runner.StatusError{Code: 422}},
		"Reused":      {true, map[string]any{code: "key_reused"}, &runner.StatusError{Code: 422}},
		"Tool":        {true, nil, &runner.StatusError{Code: 422}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runner.ResultError(test.isError, test.meta)
			require.Equal(t, test.want, got)
			again := map[string]bool{"Running": true, "InFlight": true, "InFlightNow": true, "Number": true, "Unknown": true, "Timeout": true, "Odd": true, "NaN": true}
			require.Equal(t, again[name], runner.IsRetryable(got))
		})
	}
}
