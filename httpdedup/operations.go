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

// operation is the body of an answer about an operation. Times are the
// database's.
type operation struct {
	State door.State `json:"state"`
	// Since is when it was parked.
	Since *time.Time `json:"since,omitempty"`
	// FirstAt is when the answer was recorded, ExpiresAt until when it is kept and
	// ForgetAt from when on the key may be used anew.
	FirstAt   *time.Time `json:"first_at,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	ForgetAt  *time.Time `json:"forget_at,omitempty"`
	// Response is the HTTP answer, where one was recorded, and Result or Refusal
	// what else was.
	Response *operationResponse `json:"response,omitempty"`
	Result   json.RawMessage    `json:"result,omitempty"`
	Refusal  *operationRefusal  `json:"refusal,omitempty"`
}

// operationResponse is a stored answer. Its body is one of the three: the value
// where it is JSON, else text, else other bytes in base64. None where it is empty.
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

// Operations returns a handler that tells clients which lost an answer what became
// of it, without running anything. It takes tool and key from the last two
// segments of the path, each escaped, so mount it with two wildcards at the end:
//
//	mux.Handle("GET /operations/{tool}/{key}", m.Operations())
//
// The key stands there without quotes. Whose operations are looked at is said by
// Options.Scope: a client finds its own only, and those of others are as unknown
// as those that never were.
//
// The answer is JSON with the member state: "running" (with Retry-After), "done",
// "refused", "expired" or "broken", with status 200; and "unknown" in a problem
// with status 404. Calls of a [tool.ExternalTool] of Options.Tools may be "pending" or "parked" too,
// with Retry-After, and are never "broken". Of a done or refused one response has the status, the stored
// headers and the body. Unknown is said when nothing has run or is running now, so
// a request that is still on its way may run yet.
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
	case wire.IsConnLost(err): // dedup does not look twice, as it runs twice
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

// operationName reads tool and key from the end of a path. It does not ask the
// router for them: those differ in whether they unescape a slash.
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

// describe makes of what is known of an operation what is told.
func describe(status external.Status) (*operation, error) {
	op, record := operationAt(door.StateOf(status), status.Operation), status.Record
	if !record.CreatedAt.IsZero() {
		op.FirstAt, op.ExpiresAt, op.ForgetAt = &record.CreatedAt, &record.ExpiresAt, &record.ForgetAt
	}
	switch op.State {
	case door.StateUnknown:
		unknown := refuse(kindUnknownOperation, "Nothing has run with this tool and key, or it is forgotten. A request that is on its way may run yet.")
		unknown.State = string(op.State)
		return nil, unknown
	case door.StateDone:
		if op.Response = responseOf(record.Result); op.Response == nil {
			op.Result = record.Result
		}
	case door.StateRefused:
		if op.Response = responseOf(record.Refusal.Details); op.Response == nil {
			op.Refusal = &operationRefusal{Message: record.Refusal.Message, Code: record.Refusal.Code}
		}
	}
	return op, nil
}

// operationAt is an operation in a state.
func operationAt(state door.State, of external.Operation) *operation {
	op := &operation{State: state}
	if state == door.StateParked {
		op.Since = &of.ChangedAt
	}
	return op
}

// sendOperation answers where an operation stands, and when to ask again.
func (m *Middleware) sendOperation(w http.ResponseWriter, status int, op *operation) {
	if wait := op.State.RetryAfter(m.opts.RetryAfter); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(door.Seconds(wait)))
	}
	sendJSON(w, status, "application/json", op)
}

// responseOf returns a stored answer, nil where something else was recorded.
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
