package runner

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/tooldedup/dedup/internal/door"
)

// PutMeta returns a copy of the _meta of an MCP request with the key that ctx
// carries, under io.github.tooldedup/idempotency-key. Where ctx carries none it is a plain copy, nil
// of nil. The map that is given is never changed.
//
// A key that is there already and differs, or is no string, is a
// *[dedup.InvalidError].
func PutMeta(ctx context.Context, meta map[string]any) (map[string]any, error) {
	copied := maps.Clone(meta)
	key, ok := KeyFrom(ctx)
	if !ok {
		return copied, nil
	}
	if there, ok := copied[door.MetaKey]; ok && there != key {
		return nil, conflict("_meta", key)
	}
	if copied == nil {
		copied = make(map[string]any, 1)
	}
	copied[door.MetaKey] = key
	return copied, nil
}

// ResultError returns the error that the result of an MCP call stands for, nil where it
// is the answer: isError is the result's, and meta its _meta. It knows the codes of
// package mcpdedup. A call that is in flight, or may have been committed, or was not run now, is
// a *[StatusError] that [IsRetryable] takes for one that may pass, with the time that
// the server asks to wait; so is an effect outside of the database that has no result yet. Any other
// error of a tool is a *[StatusError] of 422 that is none.
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
	case door.OutcomeUnknown, door.Unavailable:
		return &StatusError{Code: http.StatusServiceUnavailable, RetryAfter: wait}
	case door.Timeout:
		return &StatusError{Code: http.StatusGatewayTimeout, RetryAfter: wait}
	default:
		return &StatusError{Code: http.StatusUnprocessableEntity}
	}
}

// metaSeconds reads seconds as decoders of JSON leave them, 0 where there are none.
func metaSeconds(value any) time.Duration {
	seconds, _ := strconv.ParseFloat(fmt.Sprint(value), 64) // of a float64, an int or a json.Number
	if !(seconds > 0) || seconds > (time.Duration(math.MaxInt64)/2).Seconds() {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}
