package runner_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool/runner"
)

func TestPutMeta(t *testing.T) {
	t.Parallel()
	type meta = map[string]any
	for name, test := range map[string]struct {
		key      string
		meta     meta
		want     meta
		conflict bool
	}{
		"IntoNil":      {"k1", nil, meta{door.MetaKey: "k1"}, false},
		"IntoEmpty":    {"k1", meta{}, meta{door.MetaKey: "k1"}, false},
		"BesideOthers": {"k1", meta{"progressToken": 7}, meta{"progressToken": 7, door.MetaKey: "k1"}, false},
		"SameThere":    {"k1", meta{door.MetaKey: "k1"}, meta{door.MetaKey: "k1"}, false},
		"NoKey":        {"", meta{"a": 1}, meta{"a": 1}, false},
		"NoKeyNil":     {"", nil, nil, false},
		"NoKeyThere":   {"", meta{door.MetaKey: "k2"}, meta{door.MetaKey: "k2"}, false},
		"AnotherThere": {"k1", meta{door.MetaKey: "k2"}, nil, true},
		"EmptyThere":   {"k1", meta{door.MetaKey: ""}, nil, true},
		"NoString":     {"k1", meta{door.MetaKey: 7}, nil, true},
		"Null":         {"k1", meta{door.MetaKey: nil}, nil, true},
		"NotComparable": {"k1", meta{door.MetaKey: []any{"k1"}}, nil,
			true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := len(test.meta)
			got, err := runner.PutMeta(runner.WithKey(t.Context(), test.key), test.meta)
			require.Len(t, test.meta, size, "the given map is not changed")
			if test.conflict {
				var invalid *dedup.InvalidError
				require.ErrorAs(t, err, &invalid)
				require.Nil(t, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			if got != nil {
				got["mine"] = true
				require.Len(t, test.meta, size, "it is a copy")
			}
		})
	}
}

func TestResultError(t *testing.T) {
	t.Parallel()
	const code, wait = door.MetaError, door.MetaRetryAfter
	for name, test := range map[string]struct {
		isError bool
		meta    map[string]any
		want    error
		again   bool
	}{
		"Answer":      {false, map[string]any{"duplicate": true}, nil, false},
		"NoMeta":      {false, nil, nil, false},
		"Running":     {false, map[string]any{wait: 5.0}, &runner.StatusError{Code: 202, RetryAfter: 5 * time.Second}, true},
		"InFlight":    {true, map[string]any{code: "in_flight", wait: 5}, &runner.StatusError{Code: 409, RetryAfter: 5 * time.Second}, true},
		"InFlightNow": {true, map[string]any{code: "in_flight"}, &runner.StatusError{Code: 409, RetryAfter: time.Second}, true},
		"Number":      {true, map[string]any{code: "unavailable", wait: json.Number("2")}, &runner.StatusError{Code: 503, RetryAfter: 2 * time.Second}, true},
		"Unknown":     {true, map[string]any{code: "outcome_unknown"}, &runner.StatusError{Code: 503}, true},
		"Timeout":     {true, map[string]any{code: "timeout"}, &runner.StatusError{Code: 504}, true},
		"Odd":         {true, map[string]any{code: "unavailable", wait: math.Inf(1)}, &runner.StatusError{Code: 503}, true},
		"NaN":         {true, map[string]any{code: "unavailable", wait: math.NaN()}, &runner.StatusError{Code: 503}, true},
		"Blocked":     {true, map[string]any{code: "blocked"}, dedup.ErrBroken, false},
		"Refused":     {true, map[string]any{code: "refused"}, &runner.StatusError{Code: 422}, false},
		"Tool":        {true, nil, &runner.StatusError{Code: 422}, false},
	} {
		got := runner.ResultError(test.isError, test.meta)
		require.Equal(t, test.want, got, name)
		require.Equal(t, test.again, runner.IsRetryable(got), name)
	}
}
