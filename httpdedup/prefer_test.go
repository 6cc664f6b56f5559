package httpdedup

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Prefer shortens the wait, and what is no wait is as if it were not there.
func TestPreferredWait(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"":                             10 * time.Second,
		"wait=5":                       5 * time.Second,
		"Wait = 5":                     5 * time.Second,
		`respond-async, wait="5"; x=1`: 5 * time.Second,
		"wait=3, wait=5":               3 * time.Second,
		"wait=60":                      10 * time.Second,
		"wait=0":                       1,
		"wait=-1":                      10 * time.Second,
		"wait=99999999999999999999":    10 * time.Second,
		"wait":                         10 * time.Second,
		"waiting=1":                    10 * time.Second,
	} {
		m := &Middleware{opts: Options{MaxWait: 10 * time.Second}}
		r := &http.Request{Header: http.Header{}}
		if header != "" {
			r.Header.Set("Prefer", header)
		}
		require.Equal(t, want, m.externalWait(r), header)
	}
	m := &Middleware{opts: Options{MaxWait: -1}}
	require.Equal(t, time.Duration(1), m.externalWait(&http.Request{Header: http.Header{"Prefer": {"foo", "wait=5"}}}))
}
