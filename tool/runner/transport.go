package runner

import (
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/tooldedup/dedup"
)

// Transport is an http.RoundTripper that sends the key of the request's context
// in the header Idempotency-Key, as a quoted string. The zero Transport is ready
// to use. It sends a request once: trying again is up to [Do].
//
//	client := &http.Client{Transport: &runner.Transport{}}
//
// GET, HEAD, OPTIONS and TRACE change nothing and get no header; every other
// method does. A header that holds the same key already, quoted or bare, is left
// alone; another one is a *[KeyConflictError], and a key that is not printable
// ASCII a *[dedup.InvalidError]. Then nothing is sent. The caller's request is
// never changed.
//
// Two things follow from the header. net/http itself sends such a request again
// where a kept connection turns out to be closed, which the key makes harmless.
// And a client that follows a redirect sends the key along, as it does the body.
//
// Errors and bodies that end early are typed for [IsRetryable], see
// *[LostAnswerError].
type Transport struct {
	// Base sends the requests. Nil: http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	})
	keyed := req.Clone(traced)
	if err := setKey(keyed); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must; nothing was read from it
		}
		return nil, err
	}
	resp, err := t.base().RoundTrip(keyed)
	switch {
	case err == nil:
		return withLostBody(resp), nil
	case sent.Load():
		return nil, lostAnswer(err)
	default:
		return nil, err
	}
}

// CloseIdleConnections closes those of Base, where it has any.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// setKey puts the key of a request's context into its header.
func setKey(req *http.Request) error {
	key, ok := KeyFrom(req.Context())
	if !ok || isSafe(req.Method) {
		return nil
	}
	value, err := headerString(key)
	if err != nil {
		return err
	}
	there := req.Header.Values(KeyHeader)
	switch {
	case len(there) == 0:
		if req.Header == nil {
			req.Header = make(http.Header)
		}
		req.Header.Set(KeyHeader, value)
		return nil
	case len(there) == 1 && headerKey(there[0]) == key:
		return nil
	default:
		return &KeyConflictError{Where: "header " + KeyHeader, There: otherHash(there, key), Carried: dedup.KeyHash(key)}
	}
}

// otherHash is the hash of the first key of those in a header that is not key.
func otherHash(there []string, key string) string {
	for _, value := range there {
		if other := headerKey(value); other != "" && other != key {
			return dedup.KeyHash(other)
		}
	}
	return ""
}

// isSafe reports whether a method changes nothing (RFC 9110, section 9.2.1).
func isSafe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
