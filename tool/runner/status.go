package runner

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// StatusError is a response whose status says that the call failed, or is not finished. The codes
// are HTTP's; another protocol may use them in the same sense.
type StatusError struct {
	// Code is the status, such as 503.
	Code int
	// RetryAfter is how long the server asks to wait. It is a lower bound of the pause before the
	// next try. 0 means that the server did not say.
	RetryAfter time.Duration
}

// ResponseError returns nil if a response's status is below 400, and otherwise a *[StatusError]
// with its Retry-After. A 202 with Retry-After is an error too: the call was accepted and has no
// answer yet. It may be parked, which only the body says. ResponseError neither reads nor closes
// the body.
//
// A Retry-After date is counted from the response's Date, so that the server's clock does not
// matter, or from now if there is no Date. A wait below one second becomes one second: 0 would mean
// that the header is missing, which changes the meaning of a 409.
func ResponseError(resp *http.Response) error {
	accepted := resp.StatusCode == http.StatusAccepted && resp.Header.Get("Retry-After") != ""
	if resp.StatusCode < http.StatusBadRequest && !accepted {
		return nil
	}
	now := time.Now()
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now = date
	}
	e := &StatusError{Code: resp.StatusCode}
	if wait, ok := parseRetryAfter(resp.Header.Get("Retry-After"), now); ok {
		e.RetryAfter = max(wait, time.Second)
	}
	return e
}

// parseRetryAfter reads a Retry-After header (RFC 9110, section 10.2.3): seconds, or an HTTP date,
// counted from now. A date in the past is 0. ok is false for an empty or malformed value. A wait
// that exceeds a time.Duration becomes the longest one.
func parseRetryAfter(value string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(math.MaxInt64/time.Second) { // only digits are left, so the number is too large
			return math.MaxInt64, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	date, err := http.ParseTime(value)
	return max(date.Sub(now), 0), err == nil
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("runner: status %d", e.Code)
	if name := http.StatusText(e.Code); name != "" {
		text += " (" + name + ")"
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", retry after %s", e.RetryAfter)
	}
	return text
}

// Retryable reports whether the condition may pass. It is true for 408, 425, 429, 500, 502, 503 and
// 504. Unregistered codes from 500 to 599, such as a proxy's 524, count as 500 (RFC 9110, section
// 15). 202 and 409 are retryable with a Retry-After, which says that the call, or a twin with the
// same key, is in flight. Any other 409 is a lasting conflict.
func (e *StatusError) Retryable() bool {
	switch e.Code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusAccepted, http.StatusConflict:
		return e.RetryAfter > 0
	}
	return e.Code >= 500 && e.Code < 600 && http.StatusText(e.Code) == ""
}
