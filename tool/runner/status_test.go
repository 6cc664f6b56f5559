package runner_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool/runner"
)

func TestResponseError(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
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
		"Conflict":          {409, "", "", &runner.StatusError{Code: 409}},
		"InFlight":          {409, "", "2", &runner.StatusError{Code: 409, RetryAfter: 2 * time.Second}},
		"InFlightAtOnce":    {409, "", "0", &runner.StatusError{Code: 409, RetryAfter: time.Second}},
		"InFlightInThePast": {409, date(time.Hour), date(0), &runner.StatusError{Code: 409, RetryAfter: time.Second}},
		"ByTheServersClock": {503, date(time.Hour), date(time.Hour + 7*time.Second), &runner.StatusError{Code: 503, RetryAfter: 7 * time.Second}},
		"ByOurClock":        {503, "", date(-time.Hour), &runner.StatusError{Code: 503, RetryAfter: time.Second}},
		"Malformed":         {503, "", "soon", &runner.StatusError{Code: 503}},
	} {
		resp := &http.Response{StatusCode: test.code, Header: http.Header{"Date": {test.date}, "Retry-After": {test.retryAfter}}}
		require.Equal(t, test.want, runner.ResponseError(resp), name)
	}
	require.NoError(t, runner.ResponseError(&http.Response{StatusCode: 200}))
	require.Error(t, runner.ResponseError(&http.Response{StatusCode: 500}), "without any header")
}

func TestStatusErrorText(t *testing.T) {
	t.Parallel()
	require.EqualError(t, &runner.StatusError{Code: 503, RetryAfter: 2 * time.Second}, "runner: status 503 (Service Unavailable), retry after 2s")
	require.EqualError(t, &runner.StatusError{Code: 599}, "runner: status 599")
}
