package httpdedup

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// Tool returns a handler that calls a tool of Options.Tools; it may be a [tool.ExternalTool]. The
// request's body has the tool's arguments, as a JSON object, with any Content-Type. The tool's
// tags, Retention and Final mean the same as in package tool.
//
// Scope and key are those of [Middleware.Wrap], with two differences. The key is optional if the
// arguments are the key or the tool's class needs none, and a ReadOnly tool ignores it. Of the
// request only the arguments are compared, so a call is the same one over HTTP, over MCP and in an
// agent's loop.
//
//	outcome               answer
//	done                  200, the tool's result as JSON
//	arguments do not fit  400, the problem invalid-body
//	refused               422, the problem refused with the refusal's text, and its code if it has one
//	any other error       as the package documentation says of problems
//
// A call of an ExternalTool may have no answer yet. It gets 202 and goes on in the background. The
// same request with the same key returns its answer. So does a GET of the Location, which
// [Middleware.Operations] serves. The keys "." and ".." get no Location, because a path cannot hold
// them:
//
//	running  202, {"state": "running"}, with Location and Retry-After
//	parked   202, {"state": "parked", "since": …}, with Location and a Retry-After of 5 minutes
//
// A parked call may have taken effect, and an operator has to find out. The client must not send it
// with a new key. The status is 202 because clients repeat a 5xx, and make a new key after a 409.
//
// A request waits for Options.MaxWait, not the tool's. Tool panics if Options.Tools lacks the tool.
func (m *Middleware) Tool(name string) http.Handler {
	var info tool.Info
	known := false
	if m.opts.Tools != nil {
		info, known = m.opts.Tools.Lookup(name)
	}
	if !known {
		panic(fmt.Errorf("httpdedup: Tool: Options.Tools has no tool %q", name))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serveTool(w, r, info) })
}

func (m *Middleware) serveTool(w http.ResponseWriter, r *http.Request, info tool.Info) {
	if door.IsSafe(r.Method) {
		m.sendProblem(w, refuse(kindNotAllowed, "Use POST.").with("Allow", http.MethodPost))
		return
	}
	inv, err := m.invocation(w, r, info)
	var answer tool.Answer
	if err == nil {
		answer, err = m.opts.Tools.Invoke(r.Context(), inv)
	}
	var refused *dedup.RefusedError
	switch f := door.FailureOf(info.RecordedAs, err); {
	case err == nil:
		m.mark(w, door.IsDuplicate(answer.Replayed, answer.Recovered), answer.ExpiresAt)
		w.Header().Set("Content-Type", "application/json")
		send(w, http.StatusOK, answer.JSON)
	case info.External && f.State() != "": // and where to ask for the answer
		if where := m.location(info.Name, answer.Key); where != "" {
			w.Header().Set("Location", where)
		}
		m.sendOperation(w, http.StatusAccepted, operationAt(f.State(), f.Operation))
	default:
		if errors.As(err, &refused) {
			m.mark(w, door.IsDuplicate(refused.Replayed, refused.Recovered), answer.ExpiresAt)
		}
		words := m.words()
		words.Key, words.Keyless = info.Key, cmp.Or(answer.Key, inv.Key) == ""
		m.sendProblem(w, m.explainIn(words, r, inv, info.RecordedAs, err))
	}
}

// invocation makes the invocation that a request asks for. It determines the scope first.
func (m *Middleware) invocation(w http.ResponseWriter, r *http.Request, info tool.Info) (inv tool.Invocation, err error) {
	m.echo(w, r)
	inv = tool.Invocation{Tool: info.Name, MaxWait: m.opts.MaxWait}
	if info.External {
		inv.MaxWait = max(inv.MaxWait, 1) // at least 1 ns: with a negative MaxWait an external tool waits for one attempt
	}
	if inv.Scope, err = m.scope(r); err != nil {
		return inv, err
	}
	if info.Class != tool.ReadOnly {
		optional := len(info.Key) > 0 || !info.Class.NeedsKey()
		var turn door.Turn
		if inv.Key, turn, err = keyOf(r.Header, info.Name, optional); err != nil {
			return inv, err
		}
		inv.Session, inv.Turn = turn.Session, turn.Number
	}
	inv.Args, err = readBody(w, r, m.opts.MaxBody)
	return inv, err
}

// location returns the URI of an operation. It is empty if a name is a dot segment, which clients
// and routers remove.
func (m *Middleware) location(tool, key string) string {
	for _, name := range [...]string{tool, key} {
		if strings.Trim(name, ".") == "" && len(name) <= len("..") {
			return ""
		}
	}
	return m.opts.OperationsPath + url.PathEscape(tool) + "/" + url.PathEscape(key)
}
