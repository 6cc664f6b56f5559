package httpdedup

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/wire"
	"github.com/tooldedup/dedup/tool"
)

// Options configure a [Middleware]. Scope is required; every other zero field
// means the documented default, and together they follow the draft of the IETF. [StripeOptions]
// and [ACPOptions] follow others. New copies and checks them once.
type Options struct {
	// Scope names on whose behalf a request comes: the tenant, client or account,
	// taken from what was authenticated and never from what the client may choose
	// freely. One scope never sees another's answers, and cannot find out whether
	// it has used a key. A replay does not ask the handler whether it is allowed: if
	// the members of an account must not see each other's answers, let the scope name
	// the member. Required.
	//
	// An error is answered with 403, or as a *[ScopeError] in its chain says, and so
	// is an empty scope. The error's text is not shown to the client. Scope gets the
	// request without its body.
	Scope func(r *http.Request) (string, error)

	// Tool names the tool that a request calls, where [Middleware.Wrap] was given
	// no name. Default: the pattern that matched, r.Pattern, such as
	// "POST /orders/{id}/cancel". A name must be stable, since renaming a tool makes
	// every earlier call unknown. So it must not be the path, whose ids would make a
	// tool of each. An empty one is answered with 500. Tool gets the request without its body.
	//
	// chi sets r.Pattern to the part that its innermost router matched. The whole is
	// chi.RouteContext(r.Context()).RoutePattern(), behind r.With or in r.Group.
	Tool func(r *http.Request) string

	// AnyHost leaves the host out of what must be the same when a key comes again.
	// Set it where one service is reached under several names and a retry may use
	// another one than the first request, or where a proxy passes on names of its
	// own. Hosts that are tenants belong into Scope. Default false: a key that comes
	// back for another host is answered with 422.
	AnyHost bool

	// MaxBody is the most bytes that a request's body may have. More is answered
	// with 413. Default 1 MiB. JSON may have 16 MiB at most ([dedup.MaxArgsSize]).
	MaxBody int64

	// Headers are stored with an answer and come with its replays; of what else the
	// handler sets, only the first answer knows. They replace the default:
	// Content-Disposition, Content-Encoding, Content-Language, Content-Location,
	// Content-Type, ETag, Last-Modified, Link, Location, Vary and X-Content-Type-Options.
	// An empty list that is not nil stores none. A replay's Vary has the stored names
	// beside those that layers around have set. Set-Cookie and other headers of one
	// connection or one login are refused by New.
	Headers []string

	// ReusedStatus answers a key that was used before with another request: 422 as
	// the draft has it, which is the default, or 409, or 400.
	ReusedStatus int

	// ReplayedHeader is the header that marks replays, as "true". Default
	// Idempotency-Replayed.
	ReplayedHeader string

	// EchoKey sends the request's Idempotency-Key back with every answer, as it came.
	// Default false.
	EchoKey bool

	// Problem returns the body of an answer of the middleware's own, as a value that
	// encoding/json takes; its Content-Type is application/json. Default: the [Problem]
	// itself, as application/problem+json.
	Problem func(p Problem) any

	// Retention says how long answers are replayed. Default: the Deduper's.
	Retention dedup.Retention

	// MaxWait bounds how long a request waits for another one with its key that is
	// running, before it is answered with 409, and a call of a [tool.ExternalTool] for its effect,
	// before that is answered with 202. Default 10 seconds, negative means not
	// at all. A request that ends earlier, by its context, stops waiting.
	MaxWait time.Duration

	// Tools has the tools that [Middleware.Tool] serves. [Middleware.Operations] then knows the
	// operations of its external ones as well. It must be made with the same Deduper. Default none.
	Tools *tool.Registry

	// OperationsPath is where [Middleware.Operations] is mounted, a path or a URI: the
	// beginning of the Location of calls of [Middleware.Tool] that have no answer yet. Default
	// "/operations/".
	OperationsPath string

	// RetryAfter is what clients are asked to wait before they send a request again,
	// with answers 202 (running), 409 (in flight) and 503. It is sent in whole seconds, rounded up.
	// Default 1 second, at least 1 ns, at most 1 hour.
	RetryAfter time.Duration

	// OnError is told why a request was answered with 500 by the middleware, or with
	// the 500 to 599 of a [ScopeError], which the client is not. It is called before the answer is
	// sent, by the goroutine of the request. [tool.InvocationOf] of r's context has the tool, and what
	// else of the call was known by then. A handler's own answers of 500 are its own to report. What
	// the database said, and err may quote, can hold values. Default: a line at level Error to
	// slog.Default(), with the tool, and without what the database said but its SQLSTATE.
	OnError func(r *http.Request, err error)
}

// resolve returns a copy of o with the defaults filled in, or a
// *dedup.InvalidError.
func (o Options) resolve() (Options, error) {
	refuse := func(option, reason string, args ...any) (Options, error) {
		return Options{}, &dedup.InvalidError{What: "option", Field: option, Reason: fmt.Sprintf(reason, args...)}
	}
	if o.Tool == nil {
		o.Tool = func(r *http.Request) string { return r.Pattern }
	}
	o.MaxBody = cmp.Or(o.MaxBody, 1<<20)
	o.ReplayedHeader = http.CanonicalHeaderKey(cmp.Or(o.ReplayedHeader, "Idempotency-Replayed"))
	o.ReusedStatus = cmp.Or(o.ReusedStatus, http.StatusUnprocessableEntity)
	o.MaxWait = cmp.Or(o.MaxWait, 10*time.Second)
	o.RetryAfter = cmp.Or(o.RetryAfter, time.Second)
	o.OperationsPath = strings.TrimSuffix(cmp.Or(o.OperationsPath, "/operations"), "/") + "/"
	headers, err := headerNames(o.Headers, o.ReplayedHeader)
	_, badPath := url.Parse(o.OperationsPath)
	switch {
	case o.Scope == nil:
		return Options{}, &dedup.InvalidError{What: "option", Field: "Scope", Missing: true, Reason: "is required: say on whose behalf a request comes, by what was authenticated"}
	case o.MaxBody < 0:
		return refuse("MaxBody", "must be at least 1; leave it out for 1 MiB")
	case !validHeaderName(o.ReplayedHeader) || !storableHeader(o.ReplayedHeader):
		return refuse("ReplayedHeader", "is %q, which is no name of a header, or that of another one", o.ReplayedHeader)
	case err != nil:
		return refuse("Headers", "%v", err)
	case !slices.Contains([]int{http.StatusUnprocessableEntity, http.StatusConflict, http.StatusBadRequest}, o.ReusedStatus):
		return refuse("ReusedStatus", "is %d; use 422, 409 or 400", o.ReusedStatus)
	case o.RetryAfter < 0 || o.RetryAfter > time.Hour:
		return refuse("RetryAfter", "must be positive and at most 1h; leave it out for 1s")
	case badPath != nil:
		return refuse("OperationsPath", "is no beginning of a URI: %v", badPath)
	}
	o.Headers = headers
	if o.OnError == nil {
		o.OnError = func(r *http.Request, err error) {
			slog.ErrorContext(r.Context(), "httpdedup: answered 500", "method", r.Method, "pattern", r.Pattern, "tool", tool.InvocationOf(r.Context()).Tool, "error", wire.LogText(err))
		}
	}
	return o, nil
}

// headerNames returns the canonical names of the headers to store.
func headerNames(names []string, replayed string) (canonical []string, err error) {
	if names == nil {
		names = []string{
			"Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location",
			"Content-Type", "ETag", "Last-Modified", "Link", "Location", "Vary", "X-Content-Type-Options",
		}
	}
	for _, name := range names {
		name = http.CanonicalHeaderKey(name)
		if !storableHeader(name) || name == replayed {
			return nil, fmt.Errorf("%q must not be stored: it belongs to one connection, one message or one login", name)
		}
		canonical = append(canonical, name)
	}
	slices.Sort(canonical)
	return slices.Compact(canonical), nil
}

// storableHeader reports whether a header may be sent again to whoever knows scope
// and key, over another connection and at another time.
func storableHeader(name string) bool {
	switch name {
	case "", "Set-Cookie", "Set-Cookie2", "Authorization", "Authentication-Info", "Www-Authenticate",
		"Proxy-Authenticate", "Proxy-Authentication-Info", // of a login
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", // of a connection
		"Content-Length", "Date", keptHeader: // of a message
		return false
	}
	return true
}

func validHeaderName(name string) bool {
	return strings.Trim(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
