package httpdedup

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/tool"
)

// Middleware wraps handlers. It is safe for concurrent use. Make one, and wrap every handler that
// writes.
type Middleware struct {
	d    *dedup.Deduper
	opts Options
	// most is the largest body of an answer, in bytes. The stored JSON is at most twice as long,
	// whatever the bytes.
	most int
}

// New returns a Middleware that stores its answers with d. It does not use the database. The error
// is a *dedup.InvalidError whose Field is the option, or "d".
func New(d *dedup.Deduper, opts Options) (*Middleware, error) {
	resolved, err := opts.resolve()
	if err != nil {
		return nil, err
	}
	if invalid := door.CheckRetention(d, resolved.Retention); invalid != nil {
		return nil, fmt.Errorf("httpdedup: %w", invalid)
	}
	if tools := resolved.Tools; tools != nil && tools.Deduper() != d {
		return nil, &dedup.InvalidError{What: "option", Field: "Tools", Reason: "has another Deduper; make both with one"}
	}
	return &Middleware{d: d, opts: resolved, most: d.Options().MaxResultBytes / 2}, nil
}

// Wrap returns a handler that runs h once for each Idempotency-Key, in a transaction that h gets
// from [Tx]. Every later request with the key gets the first answer. The package documentation
// lists the answers that are kept, and the middleware's own answers.
//
// tool is the stable name of h's action; with "" Options.Tool names it. h must answer through its
// ResponseWriter before it returns. It may run more than once for one request; all runs but one are
// rolled back.
//
// GET, HEAD, OPTIONS, TRACE and QUERY go to h unchanged, without a key and a transaction. Every
// other method needs a key, PUT and DELETE too: a late repeat of a PUT would undo later writes.
//
// If h panics, the transaction is rolled back and the panic raised again, without an answer. Wrap
// panics if h is nil or dedup does not accept the name.
//
// Put the middleware inside the router, where the pattern is known. If it stands before the router,
// as with chi's Use, Options.Tool must name the tools. Then h cannot run again after a fault of the
// database, because a router routes a request once, and the client gets 503. The middleware assumes
// this if r.Pattern is empty, or ends in a slash, a star or a wildcard with dots, which stands for
// a subtree.
func (m *Middleware) Wrap(tool string, h http.Handler) http.Handler {
	if h == nil {
		panic("httpdedup: Wrap of a nil handler")
	}
	if problem := table.NameProblem("Tool", tool); tool != "" && problem != "" {
		panic(fmt.Errorf("httpdedup: Wrap: %w", &dedup.InvalidError{What: "call", Field: "Tool", Reason: problem}))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, tool, h) })
}

func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, tool string, next http.Handler) {
	if door.IsSafe(r.Method) {
		next.ServeHTTP(w, r)
		return
	}
	call, turn, body, err := m.admit(w, r, tool)
	inv := invocationOf(call, turn, body)
	if err != nil {
		m.sendProblem(w, m.explain(r, inv, err))
		return
	}
	j := &job{m: m, r: r, next: next, inv: inv, body: body, outer: w.Header()}
	result, err := door.DoHandler(r.Context(), m.d, call, j.effect)
	if err = m.answer(w, j, result, err); err != nil {
		m.sendProblem(w, m.explain(r, inv, err))
	}
}

// invocationOf returns a call as tool.InvocationOf returns it.
func invocationOf(call dedup.Call, turn door.Turn, body []byte) tool.Invocation {
	return tool.Invocation{
		Scope: call.Scope, Tool: call.Tool, Key: call.Key, Session: turn.Session, Turn: turn.Number, Args: body, MaxWait: call.MaxWait,
	}
}

// echo returns the key to the client as it came, if Options.EchoKey is set.
func (m *Middleware) echo(w http.ResponseWriter, r *http.Request) {
	if lines := r.Header[door.KeyHeader]; m.opts.EchoKey && len(lines) == 1 {
		w.Header()[door.KeyHeader] = slices.Clone(lines)
	}
}

// admit makes a call of a request, or returns why it cannot. It determines the scope first: a
// client without one learns nothing else.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request, tool string) (call dedup.Call, turn door.Turn, body []byte, err error) {
	m.echo(w, r)
	call = dedup.Call{Tool: tool, Retention: m.opts.Retention, MaxWait: m.opts.MaxWait}
	if call.Scope, err = m.scope(r); err != nil {
		return call, turn, nil, err
	}
	if tool == "" {
		call.Tool = m.opts.Tool(bodiless(r))
	}
	if call.Key, turn, err = keyOf(r.Header, call.Tool, false); err != nil {
		return call, turn, nil, err
	}
	if call.Tool == "" {
		return call, turn, nil, errToolUnnamed
	}
	if body, err = readBody(w, r, m.opts.MaxBody); err != nil {
		return call, turn, nil, err
	}
	if call.Key == "" { // without the host: a retry under another name of the service must find the record
		var asks json.RawMessage
		if asks, err = requestArgs(r, body, false); err == nil {
			call.Key, err = turn.Key(call.Tool, asks)
		}
	}
	if err == nil {
		call.Args, err = requestArgs(r, body, !m.opts.AnyHost)
	}
	return call, turn, body, err
}

// scope returns the scope of a request.
func (m *Middleware) scope(r *http.Request) (string, error) {
	scope, err := door.Scope(m.opts.Scope(bodiless(r)))
	var typed *ScopeError
	if err != nil && !errors.As(err, &typed) {
		err = &ScopeError{Err: err}
	}
	return scope, err
}

// answer sends the call's answer, or returns the call's error. dedup returns a handler's answer
// that is not stored as its *failedAnswer, unwrapped. A wrapped one says more than the handler
// knew: a twin or an earlier try may have been committed.
func (m *Middleware) answer(w http.ResponseWriter, j *job, result dedup.Result[json.RawMessage], err error) error {
	text := result.Value
	var refused *dedup.RefusedError
	if errors.As(err, &refused) {
		text, err = refused.Details, nil
	}
	if _, discarded := err.(*failedAnswer); discarded {
		m.sendFirst(w, j.last, time.Time{})
		return nil
	}
	if err != nil {
		return err
	}
	if !result.Replayed {
		m.sendFirst(w, j.last, result.ExpiresAt)
		return nil
	}
	a, err := readAnswer(text)
	if err != nil {
		return err
	}
	if result.Recovered && j.gave(a) {
		m.sendFirst(w, j.last, result.ExpiresAt)
	} else {
		m.replay(w, a, !result.Recovered, result.ExpiresAt)
	}
	return nil
}

// gave reports whether a stored answer is the one that the handler gave in this request, so that
// all its headers can be sent. If the handler ran twice, it is unknown which run was committed, and
// with which headers.
func (j *job) gave(a answer) bool {
	own, err := readAnswer(j.last.text)
	return err == nil && j.runs == 1 && reflect.DeepEqual(own, a)
}
