package runner

import (
	"fmt"
	"net/http"
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
	// Err is what else is known, such as the answer's text. May be nil.
	Err error
}

// ResponseError returns nil where a response's status is below 400, else a
// *[StatusError] with its Retry-After. A 202 with Retry-After is one too: the call was
// accepted, and has no answer yet. It neither reads nor closes the body.
//
// A Retry-After that is a date is counted from the response's own Date, so that
// a clock that differs from the server's does no harm, and from now where there
// is none. Less than a second counts as a second: 0 would mean that the header
// was not there, which of a 409 tells another story.
func ResponseError(resp *http.Response, now time.Time) error {
	accepted := resp.StatusCode == http.StatusAccepted && resp.Header.Get("Retry-After") != ""
	if resp.StatusCode < http.StatusBadRequest && !accepted {
		return nil
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		now = date
	}
	e := &StatusError{Code: resp.StatusCode}
	if wait, ok := parseRetryAfter(resp.Header.Get("Retry-After"), now); ok {
		e.RetryAfter = max(wait, time.Second)
	}
	return e
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("runner: status %d", e.Code)
	if name := http.StatusText(e.Code); name != "" {
		text += " (" + name + ")"
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", retry after %s", e.RetryAfter)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *StatusError) Unwrap() error { return e.Err }

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
