package httpdedup

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/wire"
	"github.com/tooldedup/dedup/tool"
)

// operation is the body of an answer about an operation. Its times are the database's.
type operation struct {
	State door.State `json:"state"`
	// Since is when the operation was parked.
	Since *time.Time `json:"since,omitempty"`
	// CreatedAt is when the answer was recorded, ExpiresAt when its replay ends, and ForgetAt when
	// the key can be used anew. ExpiresAt is nil if the answer was not kept.
	CreatedAt *time.Time `json:"created_at,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	ForgetAt  *time.Time `json:"forget_at,omitempty"`
	// Response is the recorded HTTP answer. Result or Refusal is set if the record is not an HTTP
	// answer.
	Response *operationResponse `json:"response,omitempty"`
	Result   json.RawMessage    `json:"result,omitempty"`
	Refusal  *operationRefusal  `json:"refusal,omitempty"`
}

// operationResponse is a stored answer. Body has a body that is JSON, Text another text, and Base64
// other bytes. All three are empty for an empty body.
type operationResponse struct {
	Status  int             `json:"status"`
	Headers http.Header     `json:"headers"`
	Body    json.RawMessage `json:"body,omitempty"`
	Text    string          `json:"body_text,omitempty"`
	Base64  []byte          `json:"body_base64,omitempty"`
}

type operationRefusal struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// Operations returns a handler for clients that lost an answer: it reports the state of a call and
// runs nothing. It takes tool and key, each escaped, from the last two segments of the path, so
// mount it with two wildcards at the end:
//
//	mux.Handle("GET /operations/{tool}/{key}", m.Operations())
//
// The key has no quotes in the path. Options.Scope gives the scope: a client finds only its own
// calls. Another client's call looks like one that never was.
//
// The answer is JSON with the member state. "running" (with Retry-After), "done", "refused",
// "expired" and "broken" have status 200; "not_found" is a problem with status 404. Calls of a
// [tool.ExternalTool] of Options.Tools can also be "pending" or "parked", with Retry-After, and are
// never "broken". For "done" and "refused" of a wrapped handler the member response has status,
// headers (those stored) and body; a body that is not JSON is in body_text, or in body_base64 if it
// is not UTF-8. A call of a tool of a registry, over HTTP or MCP, has no response: it has result
// for "done", and refusal with message and code for "refused".
//
// "not_found" means that nothing ran and nothing is running; a request that is still on its way may
// run later.
func (m *Middleware) Operations() http.Handler { return http.HandlerFunc(m.serveOperation) }

func (m *Middleware) serveOperation(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		m.sendProblem(w, refuse(kindNotAllowed, "Use GET.").with("Allow", "GET, HEAD"))
		return
	}
	op, err := m.lookup(r)
	if err != nil {
		m.sendProblem(w, m.explain(r, tool.Invocation{}, err))
		return
	}
	m.sendOperation(w, http.StatusOK, op)
}

// lookup finds the operation that a request names.
func (m *Middleware) lookup(r *http.Request) (*operation, error) {
	scope, err := m.scope(r)
	if err != nil {
		return nil, err
	}
	inv := tool.Invocation{Scope: scope}
	if inv.Tool, inv.Key, err = operationName(r.URL); err != nil {
		return nil, err
	}
	status, err := m.status(r.Context(), inv)
	var invalid *dedup.InvalidError
	switch {
	case errors.As(err, &invalid) && (invalid.Field == "Tool" || invalid.Field == "Key"):
		return nil, refuse(kindInvalidOperation, "The "+strings.ToLower(invalid.Field)+" "+invalid.Reason+".")
	case wire.IsConnLost(err): // Lookup, unlike Do, does not try again
		return nil, m.later(m.words(), door.Unavailable)
	case err != nil:
		return nil, err
	}
	return describe(status)
}

func (m *Middleware) status(ctx context.Context, inv tool.Invocation) (status external.Status, err error) {
	if m.opts.Tools != nil {
		if _, known := m.opts.Tools.Lookup(inv.Tool); known {
			return m.opts.Tools.Status(ctx, inv)
		}
	}
	status.Record, err = m.d.Lookup(ctx, inv.Scope, inv.Tool, inv.Key)
	return status, err
}

// operationName reads tool and key from the end of a path. It does not use the router's path
// values: routers differ in whether they unescape a slash.
func operationName(u *url.URL) (tool, key string, err error) {
	segments := strings.Split(u.EscapedPath(), "/")
	if len(segments) >= 2 {
		var toolErr, keyErr error
		tool, toolErr = url.PathUnescape(segments[len(segments)-2])
		key, keyErr = url.PathUnescape(segments[len(segments)-1])
		if toolErr == nil && keyErr == nil {
			return tool, key, nil
		}
	}
	return "", "", refuse(kindInvalidOperation, "The path must end in the tool's name and the key, each escaped.")
}

// describe returns the body for a status, or the problem if it is not_found.
func describe(status external.Status) (*operation, error) {
	op, record := operationAt(door.StateOf(status), status.Operation), status.Record
	if !record.CreatedAt.IsZero() {
		op.CreatedAt, op.ForgetAt = &record.CreatedAt, &record.ForgetAt
		if record.ExpiresAt.After(record.CreatedAt) {
			op.ExpiresAt = &record.ExpiresAt
		}
	}
	switch op.State {
	case door.StateNotFound:
		unknown := refuse(kindUnknownOperation, "Nothing has run with this tool and key, or it is forgotten. A request that is on its way may run yet.")
		unknown.State = string(op.State)
		return nil, unknown
	case door.StateDone:
		if op.Response = responseOf(record.Result); op.Response == nil {
			op.Result = record.Result
		}
	case door.StateRefused:
		if op.Response = responseOf(record.Refusal.Details); op.Response == nil {
			shown, _ := door.Disclose(record.Refusal)
			op.Refusal = &operationRefusal{Message: shown.Message, Code: shown.Code}
		}
	}
	return op, nil
}

// operationAt returns the body for a state.
func operationAt(state door.State, of external.Operation) *operation {
	op := &operation{State: state}
	if state == door.StateParked {
		op.Since = &of.ChangedAt
	}
	return op
}

// sendOperation sends the state of an operation, and when to ask again.
func (m *Middleware) sendOperation(w http.ResponseWriter, status int, op *operation) {
	if wait := op.State.RetryAfter(m.opts.RetryAfter); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(door.Seconds(wait)))
	}
	sendJSON(w, status, "application/json", op)
}

// responseOf reads a recorded HTTP answer. It returns nil if the record is not one.
func responseOf(text json.RawMessage) *operationResponse {
	a, err := readAnswer(text)
	if err != nil {
		return nil
	}
	res := &operationResponse{Status: a.Status, Headers: a.Header}
	if res.Headers == nil {
		res.Headers = http.Header{}
	}
	switch body := a.body(); {
	case utf8.Valid(body) && json.Valid(body):
		res.Body = body
	case utf8.Valid(body):
		res.Text = string(body)
	default:
		res.Base64 = body
	}
	return res
}
