package runner

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// parseRetryAfter reads the value of a Retry-After header (RFC 9110, section
// 10.2.3): seconds, or an HTTP date, which is counted from now. A date that has
// passed is 0. It is false for an empty or malformed value. What no
// time.Duration can hold is the longest one.
func parseRetryAfter(value string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if isDigits(value) {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(math.MaxInt64/time.Second) { // only too large a number is left
			return math.MaxInt64, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return max(date.Sub(now), 0), true
}

// isDigits reports whether value is a number as the header has it: no sign.
func isDigits(value string) bool {
	return value != "" && strings.Trim(value, "0123456789") == ""
}

// retryAfter is how long err's sender asks to wait, 0 where it does not.
func retryAfter(err error) time.Duration {
	var status *StatusError
	if errors.As(err, &status) {
		return status.RetryAfter
	}
	return 0
}
