package runner_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool/runner"
)

// recorder is a base transport that remembers its requests.
type recorder struct {
	requests []*http.Request
	closed   int
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.requests = append(r.requests, req)
	return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
}

func (r *recorder) CloseIdleConnections() { r.closed++ }

// closing is a body that records whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestTransportSetsTheKey(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method string
		key    string
		there  []string
		want   []string
	}{
		"Post":           {"POST", "k1", nil, []string{`"k1"`}},
		"Put":            {"PUT", "k1", nil, []string{`"k1"`}},
		"Patch":          {"PATCH", "k1", nil, []string{`"k1"`}},
		"Delete":         {"DELETE", "k1", nil, []string{`"k1"`}},
		"OwnMethod":      {"MOVE", "k1", nil, []string{`"k1"`}},
		"Escaped":        {"POST", `a "b"`, nil, []string{`"a \"b\""`}},
		"Get":            {"GET", "k1", nil, nil},
		"DefaultGet":     {"", "k1", nil, nil},
		"Head":           {"HEAD", "k1", nil, nil},
		"Options":        {"OPTIONS", "k1", nil, nil},
		"Trace":          {"TRACE", "k1", nil, nil},
		"Query":          {"QUERY", "k1", nil, nil},
		"NoKey":          {"POST", "", nil, nil},
		"NoKeyButHeader": {"POST", "", []string{"whatever"}, []string{"whatever"}},
		"GetWithHeader":  {"GET", "k1", []string{"other"}, []string{"other"}},
		"SameQuoted":     {"POST", "k1", []string{`"k1"`}, []string{`"k1"`}},
		"SameBare":       {"POST", "k1", []string{"k1"}, []string{"k1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := &recorder{}
			req := httptest.NewRequest("POST", "http://x/orders", strings.NewReader("{}"))
			req.Method = test.method
			if test.there != nil {
				req.Header[door.KeyHeader] = test.there
			}
			before := req.Header.Clone()
			req = req.WithContext(runner.WithKey(t.Context(), test.key))
			_, err := (&runner.Transport{Base: base}).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, test.want, base.requests[0].Header[door.KeyHeader])
			require.Equal(t, before, req.Header, "the caller's request stays as it was")
		})
	}
}

func TestTransportWithoutHeaders(t *testing.T) {
	t.Parallel()
	base := &recorder{}
	req := (&http.Request{Method: "POST"}).WithContext(runner.WithKey(t.Context(), "k1"))
	_, err := (&runner.Transport{Base: base}).RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, `"k1"`, base.requests[0].Header.Get(door.KeyHeader))
	require.Nil(t, req.Header)
}

func TestTransportRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key   string
		there []string
	}{
		"AnotherKey":     {"k1", []string{`"k2"`}},
		"AnotherBareKey": {"k1", []string{"k2"}},
		"SameTwice":      {"k1", []string{`"k1"`, `"k1"`}},
		"SameAndAnother": {"k1", []string{`"k1"`, "k2"}},
		"Empty":          {"k1", []string{""}},
		"Malformed":      {"k1", []string{`"k1`}},
		"OtherCase":      {"k1", []string{"K1"}},
		"NotASCII":       {"Zoë", nil},
		"Injection":      {"k\r\nX-Admin: 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, body := &recorder{}, &closing{Reader: strings.NewReader("{}")}
			req, err := http.NewRequestWithContext(runner.WithKey(t.Context(), test.key), "POST", "http://x/orders", body)
			require.NoError(t, err)
			if test.there != nil {
				req.Header[door.KeyHeader] = test.there
			}
			_, err = (&http.Client{Transport: &runner.Transport{Base: base}}).Do(req)
			require.Empty(t, base.requests, "nothing is sent")
			require.True(t, body.closed, "as a RoundTripper must")
			require.False(t, runner.IsRetryable(err))
			var invalid *dedup.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, "Key", invalid.Field)
			require.NotContains(t, err.Error(), test.key)
		})
	}
}

func TestTransportRefusesWithoutABody(t *testing.T) {
	t.Parallel()
	req := (&http.Request{Method: "POST"}).WithContext(runner.WithKey(t.Context(), "Zoë"))
	_, err := (&runner.Transport{Base: &recorder{}}).RoundTrip(req)
	require.Error(t, err)
}

func TestTransportClosesIdleConnections(t *testing.T) {
	t.Parallel()
	base := &recorder{}
	(&http.Client{Transport: &runner.Transport{Base: base}}).CloseIdleConnections()
	require.Equal(t, 1, base.closed)
	// A base without CloseIdleConnections has nothing to close.
	(&runner.Transport{Base: http.NewFileTransport(http.Dir("."))}).CloseIdleConnections()
}
