package dedupweb

import (
	"context"
	"embed"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/inspect"
)

const (
	// statementTimeout bounds each statement that reads for a page.
	statementTimeout = 5 * time.Second
	// every is the least time between two readings of the counts, for all visitors together.
	every = 5 * time.Second
	// maxForm is the most bytes of a form.
	maxForm = 4 << 20
)

// Options configure the console.
type Options struct {
	// Access returns the visitor's rights. It is required, and called for every request except
	// those for the style sheet, the script and the icon. The zero Access gets 403.
	Access func(*http.Request) Access
	// Tools must belong to d. A verdict on a tool that is registered in them is checked and carried
	// out at once. Default: Tools without any tool, so that another process carries verdicts out.
	Tools *external.Tools
}

// Access is a visitor's rights.
type Access struct {
	// Name is the visitor's name for the audit. It is required: without a name the answer is 403.
	Name string
	// Scopes are the scopes whose calls the visitor may see and act on; nil means all. Counts and
	// the server's sessions include all scopes, so a visitor with a list does not see them.
	Scopes []string
	// Keys allows lists to show keys. Without it they show the keys' hashes, and a call's page
	// needs its key.
	Keys bool
	// Results allows results, refusals and the effects' statements to be shown.
	Results bool
	// Act allows records to be freed and operations to be resolved.
	Act bool
}

//go:embed static
var static embed.FS

type console struct {
	d      *dedup.Deduper
	tools  *external.Tools
	access func(*http.Request) Access
	db     inspect.Database
	// counts are cached by the window's name. needs is cached for visitors of all scopes.
	counts map[string]*cached[*overview]
	needs  *cached[*attention]
}

// New returns the console of d. Mount it behind [http.StripPrefix], at a path that ends with a
// slash:
//
//	mux.Handle("/console/", http.StripPrefix("/console", handler))
//
// New sends nothing and starts no goroutine. The error is a [dedup.ErrInvalid].
func New(d *dedup.Deduper, opts Options) (http.Handler, error) { return newHandler(d, opts, every) }

func newHandler(d *dedup.Deduper, opts Options, every time.Duration) (http.Handler, error) {
	invalid := func(field, reason string) error {
		return &dedup.InvalidError{What: "option", Field: field, Reason: reason}
	}
	switch {
	case d == nil:
		return nil, invalid("d", "must come from dedup.New")
	case opts.Access == nil:
		return nil, invalid("Access", "is required; return each visitor's rights from it")
	case opts.Tools != nil && opts.Tools.Deduper() != d:
		return nil, invalid("Tools", "belong to another Deduper; make them with d")
	}
	tools := opts.Tools
	if tools == nil {
		var err error
		if tools, err = external.New(d, nil); err != nil {
			return nil, err
		}
	}
	c := &console{
		d: d, tools: tools, access: opts.Access,
		counts: map[string]*cached[*overview]{},
		db:     inspect.Database{D: d, Tools: tools, Timeout: statementTimeout},
	}
	for _, w := range windows {
		c.counts[w.Name] = newCached(w.ticks*every, func(ctx context.Context) (*overview, error) { return c.readOverview(ctx, w) })
	}
	c.needs = newCached(every, func(ctx context.Context) (*attention, error) { return c.readAttention(ctx, nil) })
	return c.handler(), nil
}

func (c *console) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, show := range map[string]func(*visit) error{
		"GET /{$}":       c.showOverview,
		"GET /inflight":  c.showInFlight,
		"GET /attention": c.showAttention,
		"GET /records":   c.showRecords,
		"GET /call":      c.showCall,
		"GET /audit":     c.showAudit,
		"POST /reset":    c.reset,
		"POST /resolve":  c.resolve,
	} {
		mux.Handle(pattern, c.withAccess(show))
	}
	files := http.FileServerFS(static)
	mux.HandleFunc("GET /style.css", staticFile(files))
	mux.HandleFunc("GET /live.js", staticFile(files))
	mux.HandleFunc("GET /icon.svg", staticFile(files))
	return withHeaders(http.NewCrossOriginProtection().Handler(mux))
}

// staticFile serves a file of the folder static.
func staticFile(files http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		files.ServeHTTP(w, withPath(r, "/static"+r.URL.Path))
	}
}

// policy lets a page load only files of its own handler.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// withHeaders sets the headers of every answer.
func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		// Without Sec-Fetch-Site the Origin is checked, and no-referrer would hide it.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case r.URL.Path == "" && !strings.HasSuffix(strings.TrimSuffix(r.RequestURI, "?"+r.URL.RawQuery), "/"): // mounted without the slash that relative links need
			h.Set("Location", path.Base(strings.TrimSuffix(r.RequestURI, "?"+r.URL.RawQuery))+"/")
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		case !strings.HasPrefix(r.URL.Path, "/"): // StripPrefix removed the slash
			r = withPath(r, "/"+r.URL.Path)
		}
		next.ServeHTTP(w, r)
	})
}

func withPath(r *http.Request, path string) *http.Request {
	moved, url := *r, *r.URL
	url.Path, url.RawPath = path, ""
	moved.URL = &url
	return &moved
}
