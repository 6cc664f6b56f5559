package runner

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/tooldedup/dedup/internal/door"
)

// Transport is an http.RoundTripper that sends the key of the request's context
// in the header Idempotency-Key, as a quoted string. The zero Transport is ready
// to use. It sends a request once: trying again is up to [Do].
//
//	client := &http.Client{Transport: &runner.Transport{}}
//
// GET, HEAD, OPTIONS, TRACE and QUERY change nothing and get no header; every other
// method does. A header that holds the same key already, quoted or bare, is left
// alone; another one, and a key that is not printable
// ASCII, is a *[dedup.InvalidError]. Then nothing is sent. The caller's request is
// never changed.
//
// Two things follow from the header. net/http itself sends such a request again
// where a kept connection turns out to be closed, which the key makes harmless.
// And a client that follows a redirect sends the key along, as it does the body.
//
// Where a request was on a connection and no whole answer came, the error is one that
// [IsRetryable] knows: it may have been handled.
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
		if resp.StatusCode != http.StatusSwitchingProtocols { // whose body is a connection
			resp.Body = lostBody{resp.Body}
		}
		return resp, nil
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
		return conflict("the header "+door.KeyHeader, key)
	}
	return nil
}

// lostAnswerError says that a request was on a connection and no whole answer came. It is for
// errors to which net/http gives no type of their own, such as the end of an HTTP/2 connection,
// and where net/http lost a connection with the request on it, sent it again by
// itself, and reached nobody.
type lostAnswerError struct{ err error }

func (e *lostAnswerError) Error() string { return "runner: the answer was lost: " + e.err.Error() }
func (e *lostAnswerError) Unwrap() error { return e.err }

// Retryable is true: with the same key the request can be sent again.
func (e *lostAnswerError) Retryable() bool { return true }

// lostAnswer gives err a type where it has none that says what it is, or one
// that tells of another request than the one that was sent.
func lostAnswer(err error) error {
	if IsRetryable(err) && !isUnreached(err) {
		return err
	}
	return &lostAnswerError{err}
}

// lostBody is a response's body that tells when it ends too early.
type lostBody struct{ io.ReadCloser }

func (b lostBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = lostAnswer(err)
	}
	return n, err
}
