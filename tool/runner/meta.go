package runner

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// PutMeta returns a copy of the _meta of an MCP request, with the key that ctx carries under
// io.github.tooldedup/idempotency-key. If ctx carries no key the copy is unchanged, and nil for a
// nil meta. PutMeta does not change meta.
//
// It returns a *[dedup.InvalidError] if meta has another key already, or one that is not a string.
func PutMeta(ctx context.Context, meta map[string]any) (map[string]any, error) {
	copied := maps.Clone(meta)
	key, ok := KeyFrom(ctx)
	if !ok {
		return copied, nil
	}
	if there, ok := copied[door.MetaKey]; ok && there != key {
		return nil, door.KeyConflict("_meta", key)
	}
	if copied == nil {
		copied = make(map[string]any, 1)
	}
	copied[door.MetaKey] = key
	return copied, nil
}

// ResultError returns the error that the result of an MCP call stands for, or nil if the result is
// the answer. isError is the result's IsError, and meta its _meta. It knows the codes of package
// mcpdedup.
//
// The error is [dedup.ErrBroken] if the call is blocked, and otherwise a *[StatusError].
// [IsRetryable] is true if the call is in flight, may have been committed, or could not run now. It
// is also true for an operation outside the database that has no result yet. RetryAfter is the
// server's. Any other tool error has status 422, which is not retryable.
func ResultError(isError bool, meta map[string]any) error {
	wait := metaSeconds(meta[door.MetaRetryAfter])
	code, _ := meta[door.MetaError].(string)
	switch {
	case !isError && wait > 0:
		return &StatusError{Code: http.StatusAccepted, RetryAfter: wait}
	case !isError:
		return nil
	}
	switch door.Code(code) {
	case door.InFlight:
		return &StatusError{Code: http.StatusConflict, RetryAfter: max(wait, time.Second)}
	case door.Blocked:
		return dedup.ErrBroken
	case door.OutcomeUnknown, door.Unavailable:
		return &StatusError{Code: http.StatusServiceUnavailable, RetryAfter: wait}
	case door.Timeout:
		return &StatusError{Code: http.StatusGatewayTimeout, RetryAfter: wait}
	default:
		return &StatusError{Code: http.StatusUnprocessableEntity}
	}
}

// metaSeconds returns a number of seconds as a decoder of JSON returns it, or 0 for any other
// value.
func metaSeconds(value any) time.Duration {
	seconds, _ := strconv.ParseFloat(fmt.Sprint(value), 64) // float64, int or json.Number
	if !(seconds > 0) || seconds > (time.Duration(math.MaxInt64)/2).Seconds() {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}
