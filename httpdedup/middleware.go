package httpdedup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/tool"
)

// Middleware guards handlers. It is safe for concurrent use; make one and wrap
// every handler that writes with it.
type Middleware struct {
	d    *dedup.Deduper
	opts Options
	// most is how many bytes the body of an answer may have. Whatever bytes it is made of, its JSON
	// has no more than twice as many.
	most int
}

// New returns a Middleware that keeps its answers with d. It sends nothing. The error is a
// *dedup.InvalidError, whose Field is the option, or "d".
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

// Wrap returns a handler that runs h once for each Idempotency-Key, in a
// transaction that h finds with [Tx], and answers every later request with the
// first one's answer. The package documentation says which answers are kept, and
// what else requests are answered with.
//
// tool is the stable name of what h does; "" takes Options.Tool's. h must answer
// through its ResponseWriter before it returns, and may run more than once for one
// request, with all runs but one rolled back.
//
// GET, HEAD, OPTIONS, TRACE and QUERY are passed on to h as they are, with no key and no
// transaction. Any other method needs a key, those that are idempotent by
// themselves too: a PUT that is sent again late would undo what came after it.
//
// A panic of h is raised again after the rollback, and nothing is answered. A h of
// nil and a name that dedup would not take panic at once.
//
// Behind a router it stands inside, where the pattern is known. Before one, as chi's Use has it,
// Options.Tool has to name the tools, and a fault of the database for which h would run again is
// answered with 503: a router sees a request once. That is so where r.Pattern is empty, or ends in
// a slash, a star or a wildcard with dots, for a subtree.
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
	result, err := dedup.Do(r.Context(), m.d, call, j.effect)
	if j.left != nil && abortedForGood(err) { // the handler has told of the failed statement
		err = j.left
		if j.last.kept() { // where a twin has been answered since, that is the answer
			result, err = dedup.Do(r.Context(), m.d, call, func(context.Context, pgx.Tx) (json.RawMessage, error) { return nil, j.left })
		}
	}
	if err = m.answer(w, j, result, err); err != nil {
		m.sendProblem(w, m.explain(r, inv, err))
	}
}

// invocationOf is a call as tool.InvocationOf returns it.
func invocationOf(call dedup.Call, turn door.Turn, body []byte) tool.Invocation {
	return tool.Invocation{
		Scope: call.Scope, Tool: call.Tool, Key: call.Key, Session: turn.Session, Turn: turn.Number, Args: body, MaxWait: call.MaxWait,
	}
}

// echo sends the key back as it came, if Options.EchoKey says so.
func (m *Middleware) echo(w http.ResponseWriter, r *http.Request) {
	if lines := r.Header[door.KeyHeader]; m.opts.EchoKey && len(lines) == 1 {
		w.Header()[door.KeyHeader] = slices.Clone(lines)
	}
}

// admit makes a call of a request, or says why there is none. Who asks comes
// first: whoever may not is told nothing else.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request, tool string) (call dedup.Call, turn door.Turn, body []byte, err error) {
	m.echo(w, r)
	call = dedup.Call{Tool: tool, Retention: m.opts.Retention, MaxWait: m.opts.MaxWait}
	if call.Scope, err = m.scope(bodiless(r)); err != nil {
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
	if call.Key == "" { // the host is only compared: a retry under another name of the service meets the record
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

// scope asks on whose behalf a request comes.
func (m *Middleware) scope(r *http.Request) (string, error) {
	scope, err := door.Scope(m.opts.Scope(r))
	var typed *ScopeError
	if err != nil && !errors.As(err, &typed) {
		err = &ScopeError{Err: err}
	}
	return scope, err
}

// answer sends the call's answer. It returns the error of a call that has none. A handler's answer
// that is not stored is sent where dedup passes its error on untouched. Anything around that error says that
// more is to be known than the handler knew: whether a twin or an earlier try was
// committed.
func (m *Middleware) answer(w http.ResponseWriter, j *job, result dedup.Result[json.RawMessage], err error) error {
	text := result.Value
	var refused *dedup.RefusedError
	if errors.As(err, &refused) {
		text, err = refused.Details, nil
	}
	if _, discarded := err.(*failedAnswer); discarded {
		m.first(w, j.last, time.Time{})
		return nil
	}
	if err != nil {
		return err
	}
	if !result.Replayed {
		m.first(w, j.last, result.ExpiresAt)
		return nil
	}
	a, err := readAnswer(text)
	if err != nil {
		return err
	}
	if result.Recovered && j.gave(a) {
		m.first(w, j.last, result.ExpiresAt)
	} else {
		m.replay(w, a, !result.Recovered, result.ExpiresAt)
	}
	return nil
}

// gave reports whether a stored answer is the one that the handler gave in this
// request, so that it may have all its headers. After two runs nobody knows which of
// them was committed, and what else the other has told.
func (j *job) gave(a answer) bool {
	own, err := readAnswer(j.last.text)
	return err == nil && j.runs == 1 && reflect.DeepEqual(own, a)
}
