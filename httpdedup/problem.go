package httpdedup

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/tooldedup/dedup/internal/door"
)

// Problem is one of the middleware's own answers, in the form of RFC 9457. Its JSON is the body,
// unless Options.Problem replaces it.
type Problem struct {
	// Name is the end of Type, such as "in-flight": see problems.md.
	Name   string `json:"-"`
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Changed names the differences from the first request with the key.
	Changed []string `json:"changed,omitempty"`
	// Code is the code of a tool's refusal.
	Code string `json:"code,omitempty"`
	// State is "not_found" for an operation that is not known.
	State string `json:"state,omitempty"`
}

// The kinds of problems, without the details of a request. Each has a heading in problems.md.
var (
	kindMissingKey       = kind("missing-key", http.StatusBadRequest, "An Idempotency-Key is required")
	kindInvalidKey       = kind("invalid-key", http.StatusBadRequest, "The Idempotency-Key is malformed")
	kindInvalidRequest   = kind("invalid-request", http.StatusBadRequest, "The request is malformed")
	kindInvalidBody      = kind("invalid-body", http.StatusBadRequest, "The body is malformed")
	kindBodyTooLarge     = kind("body-too-large", http.StatusRequestEntityTooLarge, "The body is too large")
	kindNoScope          = kind("no-scope", http.StatusForbidden, "The caller is unknown, or may not do this")
	kindInFlight         = kind("in-flight", http.StatusConflict, "A request with this Idempotency-Key is running")
	kindKeyReused        = kind("key-reused", http.StatusUnprocessableEntity, "The Idempotency-Key was used for another request")
	kindExpired          = kind("expired", http.StatusGone, "The request was answered, and the answer is gone")
	kindUnavailable      = kind("unavailable", http.StatusServiceUnavailable, "The request could not be run now")
	kindOutcomeUnknown   = kind("outcome-unknown", http.StatusServiceUnavailable, "The outcome is not known yet")
	kindRefused          = kind("refused", http.StatusUnprocessableEntity, "The request was refused, and always will be")
	kindUnknownOperation = kind("unknown-operation", http.StatusNotFound, "No such operation")
	kindInvalidOperation = kind("invalid-operation", http.StatusBadRequest, "The path names no operation")
	kindNotAllowed       = kind("method-not-allowed", http.StatusMethodNotAllowed, "The method is not allowed")
	kindInternal         = kind("internal", http.StatusInternalServerError, "The request could not be run")
)

func kind(name string, status int, title string) Problem {
	return Problem{Name: name, Type: "https://github.com/tooldedup/dedup/blob/main/httpdedup/problems.md#" + name, Title: title, Status: status}
}

// kinds maps the errors of a call. An error that is missing here is kindInternal.
var kinds = map[door.Code]Problem{
	door.KeyReused: kindKeyReused, door.Refused: kindRefused, door.Expired: kindExpired, door.ArgumentsInvalid: kindInvalidBody,
	door.InFlight: kindInFlight, door.OutcomeUnknown: kindOutcomeUnknown, door.Unavailable: kindUnavailable, door.Timeout: kindUnavailable,
}

// refusal is the error of a request that the middleware answers with a problem. Its texts have
// names and positions of the request only, or they are a tool's own.
type refusal struct {
	Problem
	header http.Header
}

func refuse(k Problem, detail string) *refusal {
	k.Detail = detail
	return &refusal{Problem: k}
}

// Error implements error.
func (e *refusal) Error() string { return "httpdedup: " + e.Detail }

// with adds a header to the answer.
func (e *refusal) with(name, value string) *refusal {
	e.header = http.Header{name: {value}}
	return e
}

// sendProblem answers with a refusal.
func (m *Middleware) sendProblem(w http.ResponseWriter, e *refusal) {
	maps.Copy(w.Header(), e.header)
	if m.opts.Problem != nil {
		sendJSON(w, e.Status, "application/json", m.opts.Problem(e.Problem))
		return
	}
	sendJSON(w, e.Status, "application/problem+json", e.Problem)
}

// sendJSON sends a value that holds now and must not be cached.
func sendJSON(w http.ResponseWriter, status int, contentType string, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // net/http reports it; only the value of Options.Problem can fail
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	send(w, status, append(body, '\n'))
}
