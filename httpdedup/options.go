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

// Options configure a [Middleware]. Scope is required. The zero value of any other field means its
// default; the defaults follow the IETF draft. [StripeOptions] and [ACPOptions] follow other rules.
// New copies and checks the options once.
type Options struct {
	// Scope returns the tenant, client or account that sent a request. Take it from the
	// authentication, never from a value that the client may choose. A scope cannot see the answers
	// of another one, nor find out which keys another one used. A replay does not ask the handler
	// for permission: if the members of an account must not see each other's answers, make the
	// scope the member. Required.
	//
	// An error is answered with 403, or with the Status of a *[ScopeError] in its chain. An empty
	// scope counts as an error. The client does not see the error's text. The request that Scope
	// gets has no body.
	Scope func(r *http.Request) (string, error)

	// Tool names the tool that a request calls, if [Middleware.Wrap] got no name. A name must be
	// stable: if it changes, earlier calls are no longer found. So do not use the path, whose ids
	// would make many tools. An empty name is answered with 500. The request that Tool gets has no
	// body. Default: the pattern of net/http that matched, r.Pattern, such as "POST
	// /orders/{id}/cancel". A pattern without a method names no tool, because two methods would be
	// one tool, and other routers change theirs: chi v5.2 sets the innermost router's part, v5.5
	// the whole.
	//
	// With chi give Wrap a name. Or use r.With or r.Group, and return the method and chi's
	// RouteContext(ctx).RoutePattern(). In r.Route with r.Use that is the prefix of many routes.
	Tool func(r *http.Request) string

	// AnyHost leaves the host out of the comparison of requests. Set it if the service has several
	// names and a retry may use another one, or if a proxy replaces the names. If hosts are
	// tenants, put the host into Scope. Default: false. A retry that names another host is then
	// another request, and is answered with ReusedStatus.
	AnyHost bool

	// MaxBody is the maximum size of a request's body, in bytes. A larger one is answered with 413.
	// JSON may have at most 16 MiB ([dedup.MaxArgsSize]). Default: 1 MiB.
	MaxBody int64

	// Headers are the headers that are stored with an answer and sent with its replays. Other
	// headers are sent with the first answer only. An empty list that is not nil stores none. A
	// replay's Vary has the stored names and those of outer layers. New refuses Set-Cookie and
	// other headers that belong to one connection or one login. Default: Content-Disposition,
	// Content-Encoding, Content-Language, Content-Location, Content-Type, ETag, Last-Modified,
	// Link, Location, Vary and X-Content-Type-Options.
	Headers []string

	// ReusedStatus answers a key that comes with another request: 422, as in the draft, 409 or 400.
	// Default: 422.
	ReusedStatus int

	// ReplayedHeader is the header that marks replays, with the value "true". Default:
	// Idempotency-Replayed.
	ReplayedHeader string

	// EchoKey sends the request's Idempotency-Key back with every answer, unchanged. Default:
	// false.
	EchoKey bool

	// Problem returns the body of one of the middleware's own answers, as a value for
	// encoding/json. Its Content-Type is application/json. Default: the [Problem] itself, as
	// application/problem+json.
	Problem func(p Problem) any

	// Retention says how long answers are replayed. Default: the Deduper's.
	Retention dedup.Retention

	// MaxWait bounds two waits. A request waits for another one with its key that is running, and
	// is then answered with 409. A call of a [tool.ExternalTool] waits for its operation, and is
	// then answered with 202. Negative means 5 ms, and for an operation no wait. A request whose
	// context ends stops waiting. Default: 10 seconds.
	MaxWait time.Duration

	// Tools has the tools that [Middleware.Tool] serves. With it, [Middleware.Operations] reports
	// the operations of external tools too. It must have the same Deduper. Default: none.
	Tools *tool.Registry

	// OperationsPath is where [Middleware.Operations] is mounted, as a path or a URI. The Location
	// of a call of [Middleware.Tool] without an answer begins with it. Default: "/operations/".
	OperationsPath string

	// RetryAfter is how long clients are asked to wait before they repeat a request, with 202
	// (running), 409 (in flight) and 503. It is sent in whole seconds, rounded up. It must be at
	// least 1 ns and at most 1 hour. Default: 1 second.
	RetryAfter time.Duration

	// OnError gets the reason why the middleware answered with 500, or with the status from 500 to
	// 599 of a [ScopeError]. The client does not see it. The request's goroutine calls it before it
	// sends the answer. [tool.InvocationOf] of r's context has the tool, and whatever else of the
	// call was known. A handler that answers with 500 must report that itself. err may quote the
	// database's message, which can hold values. Default: a line at level Error to slog.Default()
	// with the tool; of the database's message only the SQLSTATE.
	OnError func(r *http.Request, err error)
}

// resolve returns a copy of o with the defaults, or a *dedup.InvalidError.
func (o Options) resolve() (Options, error) {
	refuse := func(option, reason string, args ...any) (Options, error) {
		return Options{}, &dedup.InvalidError{What: "option", Field: option, Reason: fmt.Sprintf(reason, args...)}
	}
	if o.Tool == nil {
		o.Tool = patternOf
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
		return Options{}, &dedup.InvalidError{What: "option", Field: "Scope", Missing: true, Reason: "is required: return the authenticated tenant, client or account of a request"}
	case o.MaxBody < 0:
		return refuse("MaxBody", "must be at least 1; leave it out for 1 MiB")
	case !validHeaderName(o.ReplayedHeader) || !storableHeader(o.ReplayedHeader):
		return refuse("ReplayedHeader", "is %q, which is not a name of a header, or the name of another header", o.ReplayedHeader)
	case err != nil:
		return refuse("Headers", "%v", err)
	case !slices.Contains([]int{http.StatusUnprocessableEntity, http.StatusConflict, http.StatusBadRequest}, o.ReusedStatus):
		return refuse("ReusedStatus", "is %d; use 422, 409 or 400", o.ReusedStatus)
	case o.RetryAfter < 0 || o.RetryAfter > time.Hour:
		return refuse("RetryAfter", "must be positive and at most 1h; leave it out for 1s")
	case badPath != nil:
		return refuse("OperationsPath", "is not the beginning of a URI: %v", badPath)
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

// storableHeader reports whether a header may be sent again later, on another connection, to any
// client that has the scope and the key.
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

// patternOf returns the pattern by which a ServeMux matched r, if it has a method. A ServeMux takes
// spaces and tabs behind the method; the name has one space.
func patternOf(r *http.Request) string {
	method := strings.IndexAny(r.Pattern, " \t")
	if method <= 0 {
		return ""
	}
	return r.Pattern[:method] + " " + strings.TrimLeft(r.Pattern[method:], " \t")
}
