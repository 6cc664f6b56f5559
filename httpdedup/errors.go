package httpdedup

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/tooldedup/dedup"
)

// Errors for Options.OnError. The client gets 500.
var (
	errToolUnnamed = &dedup.InvalidError{What: "option", Field: "Tool", Reason: "names no tool for this route: give a name to Wrap, set Options.Tool, or route by a pattern of net/http with a method, such as POST /orders, inside of which the middleware stands"}
	errBodyRead    = &dedup.InvalidError{What: "call", Field: "Body", Reason: "was read before the middleware: put layers that parse forms or bodies behind it, or give the request its body back; a layer that changes its length sets ContentLength to -1"}
)

// errRunOnce ends a call whose handler would have to run again, if the middleware stands before a
// router, which can route a request only once.
var errRunOnce = errors.New("httpdedup: not run again: the middleware stands before the router")

// ScopeError is an error of Options.Scope that sets the answer. It may be wrapped. Only Status and
// Challenge reach the client.
type ScopeError struct {
	// Status is the answer's status, from 400 to 599. Use 401 to make the client log in, and 503 if
	// the identity service is down. Default: 403.
	Status int
	// Challenge is sent as WWW-Authenticate, such as `Bearer realm="shop"`. A 401 must have it.
	Challenge string
	// Err is the reason, for the log.
	Err error
}

// Error implements error.
func (e *ScopeError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("httpdedup: no scope, answered with %d", e.status())
	}
	return fmt.Sprintf("httpdedup: no scope, answered with %d: %v", e.status(), e.Err)
}

// Unwrap returns Err.
func (e *ScopeError) Unwrap() error { return e.Err }

func (e *ScopeError) status() int {
	if e.Status < 400 || e.Status > 599 {
		return http.StatusForbidden
	}
	return e.Status
}
