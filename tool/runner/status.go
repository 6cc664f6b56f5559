package runner

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// StatusError is an answer whose status says that the call did not succeed, or not yet. The
// codes are HTTP's, but any protocol may use them to say what they say.
type StatusError struct {
	// Code is the status, such as 503.
	Code int
	// RetryAfter is how long the other side asks to wait: a lower bound of the
	// pause before the next try. 0: it did not say.
	RetryAfter time.Duration
}

// ResponseError returns nil where a response's status is below 400, else a
// *[StatusError] with its Retry-After. A 202 with Retry-After is one too: the call was
// accepted, and has no answer yet. It neither reads nor closes the body.
//
// A Retry-After that is a date is counted from the response's own Date, so that
// a clock that differs from the server's does no harm, and from now where there
// is none. Less than a second counts as a second: 0 would mean that the header
// was not there, which of a 409 tells another story.
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

// parseRetryAfter reads the value of a Retry-After header (RFC 9110, section
// 10.2.3): seconds, or an HTTP date, which is counted from now. A date that has
// passed is 0. It is false for an empty or malformed value. What no
// time.Duration can hold is the longest one.
func parseRetryAfter(value string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(math.MaxInt64/time.Second) { // only too large a number is left
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

// Retryable reports whether the status is one that may pass: 408, 425, 429, 500,
// 502, 503 and 504; any other of 500 to 599 that is not registered, such as a proxy's 524,
// which counts as 500 (RFC 9110, section 15); and 202 and 409 where Retry-After is given, which says that the
// call, or a twin with the same key, is in flight. Any other 409 is a conflict that stays.
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
