package httpdedup

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// External returns a handler that makes calls of a tool of Options.External, whose effect is
// outside of the database. The request's body is the tool's input as JSON, whatever its
// Content-Type. Scope, key and what a request is are those of [Middleware.Wrap]: the same
// key must come with the same request, so a key that was used for the tool otherwise than by
// this handler is another request's. How long answers are replayed is up to the tool.
//
//	what became of it   answer
//	done                200, the tool's result as JSON
//	refused             422, the problem refused with the refusal's text, and its code where it has one
//	running             202, {"state": "running"}, with Location and Retry-After
//	parked              202, {"state": "parked", "since": …}, with Location and a Retry-After of 5 minutes
//
// A request waits for its effect as long as Options.MaxWait says. After a 202 the effect goes on, and the same request with the same key
// asks for its answer, and so does the Location, which [Middleware.Operations] serves. Parked is
// what may have taken effect, and where a person has to find out: the client must not send it
// with a new key. That is 202 as well, because clients send a 5xx again, and make a new key
// after a 409.
//
// It panics at once where Options.External lacks the tool.
func (m *Middleware) External(tool string) http.Handler {
	if m.opts.External == nil || !m.opts.External.Has(tool) {
		panic(fmt.Errorf("httpdedup: External: Options.External has no tool %q", tool))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serveExternal(w, r, tool) })
}

func (m *Middleware) serveExternal(w http.ResponseWriter, r *http.Request, tool string) {
	if door.IsSafe(r.Method) {
		m.sendProblem(w, refuse(kindNotAllowed, "Use POST.").with("Allow", http.MethodPost))
		return
	}
	call, body, err := m.admit(w, r, tool)
	if err != nil {
		m.sendProblem(w, m.explain(r, tool, err))
		return
	}
	call.MaxWait = max(call.MaxWait, 1) // not at all: for a negative one External waits for an attempt
	result, err := m.opts.External.Do(r.Context(), call, body)
	var refused *dedup.RefusedError
	switch f := door.FailureOf(tool, err); {
	case err == nil:
		m.mark(w, door.IsDuplicate(result.Replayed, result.Recovered), result.ExpiresAt)
		w.Header().Set("Content-Type", "application/json")
		send(w, http.StatusOK, result.Value)
	case f.State() != "": // and where to look for an answer
		w.Header().Set("Location", m.opts.OperationsPath+url.PathEscape(call.Tool)+"/"+url.PathEscape(call.Key))
		m.sendOperation(w, http.StatusAccepted, operationAt(f.State(), f.Operation))
	default:
		if errors.As(err, &refused) {
			m.mark(w, door.IsDuplicate(refused.Replayed, refused.Recovered), result.ExpiresAt)
		}
		m.sendProblem(w, m.explain(r, tool, err))
	}
}
