package runner

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/tooldedup/dedup/internal/door"
)

// Transport is an http.RoundTripper that sends the key of the request's context in the header
// Idempotency-Key, as a quoted string. The zero Transport is ready to use. It sends a request once;
// [Do] repeats it.
//
//	client := &http.Client{Transport: &runner.Transport{}}
//
// GET, HEAD, OPTIONS, TRACE and QUERY change nothing and get no header. Every other method gets it.
// A header with the same key, quoted or bare, is left unchanged. RoundTrip returns a
// *[dedup.InvalidError], and sends nothing, if the header has another key or the key is not
// printable ASCII. It never changes the caller's request.
//
// The header has two side effects. net/http repeats such a request if a kept connection turns out
// to be closed, which the key makes harmless. And a client that follows a redirect sends the key
// along, as it sends the body.
//
// If a request was on a connection and no whole answer came, the error is retryable
// ([IsRetryable]): the server may have handled it.
type Transport struct {
	// Base sends the requests. Default: http.DefaultTransport.
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
			_ = req.Body.Close() // RoundTrip must close the body
		}
		return nil, err
	}
	resp, err := t.base().RoundTrip(keyed)
	switch {
	case err == nil:
		if resp.StatusCode != http.StatusSwitchingProtocols { // the body of a 101 is a connection
			resp.Body = lostBody{resp.Body}
		}
		return resp, nil
	case sent.Load():
		return nil, lostAnswer(err)
	default:
		return nil, err
	}
}

// CloseIdleConnections closes the idle connections of Base, if it can.
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

// setKey copies the key of a request's context into its header.
func setKey(req *http.Request) error {
	key, ok := KeyFrom(req.Context())
	if !ok || door.IsSafe(req.Method) {
		return nil
	}
	value, ok := door.HeaderString(key)
	if !ok {
		return invalid("Key", "holds more than printable ASCII, which the header "+door.KeyHeader+" cannot carry; encode it once, where it is made: dedup.KeyFromIntent(key)")
	}
	there := req.Header.Values(door.KeyHeader)
	if len(there) == 0 {
		if req.Header == nil {
			req.Header = make(http.Header)
		}
		req.Header.Set(door.KeyHeader, value)
		return nil
	}
	if sent, _, problem := door.ReadHeader(there[0]); len(there) > 1 || problem != "" || sent != key {
		return door.KeyConflict("the header "+door.KeyHeader, key)
	}
	return nil
}

// lostAnswerError is returned if a request was on a connection and no whole answer came. It wraps
// errors that net/http gives no type, such as the end of an HTTP/2 connection. It also wraps the
// error of a second dial: net/http lost the connection, repeated the request, and could not
// connect.
type lostAnswerError struct{ err error }

func (e *lostAnswerError) Error() string { return "runner: the answer was lost: " + e.err.Error() }
func (e *lostAnswerError) Unwrap() error { return e.err }

// Retryable returns true: the request can be sent again with the same key.
func (e *lostAnswerError) Retryable() bool { return true }

// lostAnswer wraps err in a lostAnswerError, unless err already is the error of a lost answer.
func lostAnswer(err error) error {
	if IsRetryable(err) && !isUnreached(err) {
		return err
	}
	return &lostAnswerError{err}
}

// lostBody is a response's body that returns a lostAnswerError if it ends too early.
type lostBody struct{ io.ReadCloser }

func (b lostBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = lostAnswer(err)
	}
	return n, err
}
