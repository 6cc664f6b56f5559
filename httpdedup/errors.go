package httpdedup

import (
	"errors"
	"fmt"
	"net/http"
)

var (
	// ErrToolUnnamed: a request was to be run for which nobody has named a tool.
	// Told to Options.OnError; the client is answered with 500, and nothing has run.
	ErrToolUnnamed = errors.New("httpdedup: this route has no tool name: give one to Wrap or For, set Options.Tool, or stand behind the router, where r.Pattern is known")

	// ErrBodyRead: a layer around, or Options.Scope or Tool, has read the request's
	// body, or the beginning of it, and put nothing in its place, so that it cannot
	// be compared with a retry's. Told to Options.OnError; the client is answered with
	// 500, and nothing has run.
	//
	// It is found where Scope or Tool has read, where the body is closed, where a form
	// was parsed, and where fewer bytes are left than Content-Length says. A layer that
	// changes the length of a body, as decompression does, should set r.ContentLength
	// to -1; else a body that it makes shorter is refused here if it is empty or
	// stands in an http.MaxBytesReader.
	//
	// It cannot be found where the request has no Content-Length (chunks, HTTP/2) and a
	// layer has read the body without closing it: such a body counts as empty if all of
	// it was read, and as what is left otherwise. The same holds for the beginning of a
	// body that a layer has replaced. The handler gets no more of it either. Then two
	// requests that differ in what was read are one under the same key.
	ErrBodyRead = errors.New("httpdedup: the body was read before the middleware: put what parses forms or bodies behind it, or give the request its body back; a layer that changes its length sets ContentLength to -1")

	// ErrResponse: a handler answered in a way that cannot be stored, so that its
	// work was rolled back. The error is a *[ResponseError]. Told to Options.OnError.
	ErrResponse = errors.New("httpdedup: the handler's answer cannot be stored")

	// ErrStoredAnswer: the record of a key holds no HTTP answer, because something
	// else than this package has recorded a call under the same scope, tool and key.
	// Told to Options.OnError.
	ErrStoredAnswer = errors.New("httpdedup: the record holds no HTTP answer; give tools of other doors other names")
)

// errRunOnce ends a call whose handler would have to run again although the
// router behind the middleware may only see a request once.
var errRunOnce = errors.New("httpdedup: not run again: the middleware stands before the router")

// ScopeError is an error of Options.Scope that says how to answer. Wrapped or
// not, only Status and Challenge reach the client.
type ScopeError struct {
	// Status is the answer's, from 400 to 599. Default 403; 401 asks the client to
	// log in, 503 says that nobody could be asked who it is.
	Status int
	// Challenge is sent as WWW-Authenticate, which a 401 must have, such as
	// `Bearer realm="shop"`.
	Challenge string
	// Err is the reason, for those who read logs.
	Err error
}

// Error implements error.
func (e *ScopeError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("httpdedup: no scope, answered with %d", e.status())
	}
	return fmt.Sprintf("httpdedup: no scope, answered with %d: %v", e.status(), e.Err)
}

// Unwrap returns the reason.
func (e *ScopeError) Unwrap() error { return e.Err }

func (e *ScopeError) status() int {
	if e.Status < 400 || e.Status > 599 {
		return http.StatusForbidden
	}
	return e.Status
}

// ResponseError says what a handler did that its stored answer could not hold.
type ResponseError struct {
	// Status is what the handler answered with.
	Status int
	// Reason says what is wrong and what to do instead. It holds no body and no
	// header's value.
	Reason string
}

// Error implements error.
func (e *ResponseError) Error() string {
	return fmt.Sprintf("httpdedup: the answer %d cannot be stored, and the call was rolled back: %s", e.Status, e.Reason)
}

// Is makes errors.Is(err, ErrResponse) true.
func (e *ResponseError) Is(target error) bool { return target == ErrResponse }
