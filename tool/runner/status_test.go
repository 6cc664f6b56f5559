package runner_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool/runner"
)

func TestResponseError(t *testing.T) {
	t.Parallel()
	server := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	here := server.Add(-time.Hour) // a clock that is an hour slow
	date := func(d time.Duration) string { return server.Add(d).Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		code       int
		date       string
		retryAfter string
		want       error
	}{
		"OK":                {200, "", "5", nil},
		"Accepted":          {202, "", "", nil},
		"AcceptedFor5s":     {202, "", "5", &runner.StatusError{Code: 202, RetryAfter: 5 * time.Second}},
		"Redirect":          {304, "", "", nil},
		"BadRequest":        {400, "", "", &runner.StatusError{Code: 400}},
		"Busy":              {503, "", "", &runner.StatusError{Code: 503}},
		"BusyFor5s":         {503, "", "5", &runner.StatusError{Code: 503, RetryAfter: 5 * time.Second}},
		"Conflict":          {409, "", "", &runner.StatusError{Code: 409}},
		"InFlight":          {409, "", "2", &runner.StatusError{Code: 409, RetryAfter: 2 * time.Second}},
		"InFlightAtOnce":    {409, "", "0", &runner.StatusError{Code: 409, RetryAfter: time.Second}},
		"InFlightInThePast": {409, date(0), date(-time.Minute), &runner.StatusError{Code: 409, RetryAfter: time.Second}},
		"ByTheServersClock": {503, date(0), date(7 * time.Second), &runner.StatusError{Code: 503, RetryAfter: 7 * time.Second}},
		"ByOurClock":        {503, "", date(7 * time.Second), &runner.StatusError{Code: 503, RetryAfter: time.Hour + 7*time.Second}},
		"ByOurClockToo":     {503, "tomorrow", date(7 * time.Second), &runner.StatusError{Code: 503, RetryAfter: time.Hour + 7*time.Second}},
		"Malformed":         {503, "", "soon", &runner.StatusError{Code: 503}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := &http.Response{StatusCode: test.code, Header: http.Header{"Date": {test.date}, "Retry-After": {test.retryAfter}}}
			require.Equal(t, test.want, runner.ResponseError(resp, here))
		})
	}
	require.NoError(t, runner.ResponseError(&http.Response{StatusCode: 200}, here))
	require.Error(t, runner.ResponseError(&http.Response{StatusCode: 500}, here), "without any header")
}

func TestStatusErrorText(t *testing.T) {
	t.Parallel()
	cause := errors.New("the pool is empty")
	err := &runner.StatusError{Code: 503, RetryAfter: 2 * time.Second, Err: cause}
	require.EqualError(t, err, "runner: status 503 (Service Unavailable), retry after 2s: the pool is empty")
	require.ErrorIs(t, err, cause)
	require.EqualError(t, &runner.StatusError{Code: 599}, "runner: status 599")
}
