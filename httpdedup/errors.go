package httpdedup

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/tooldedup/dedup"
)

// What Options.OnError is told of routes, bodies, answers and records that cannot be guarded. The
// client is answered with 500.
var (
	errToolUnnamed = &dedup.InvalidError{What: "option", Field: "Tool", Reason: "names no tool for this route: give a name to Wrap, set Options.Tool, or stand behind the router, where r.Pattern is known"}
	errBodyRead    = &dedup.InvalidError{What: "call", Field: "Body", Reason: "was read before the middleware: put what parses forms or bodies behind it, or give the request its body back; a layer that changes its length sets ContentLength to -1"}
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
