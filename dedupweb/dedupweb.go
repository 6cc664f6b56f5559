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
	// every is a tick: how often counts are read at most, however many look at them.
	every = 5 * time.Second
	// maxForm bounds what is posted.
	maxForm = 4 << 20
)

// Options configure the console.
type Options struct {
	// Access says who asks, and what they may see and do. It is required, and called for
	// every request but those for the style sheet, the script and the icon. The zero Access is
	// answered with 403.
	Access func(*http.Request) Access
	// Tools are those of d. Verdicts on tools that were added to them are checked and carried
	// out at once. Default Tools without any, so that a process that has the tool carries
	// them out.
	Tools *external.Tools
}

// Access is what somebody may see and do.
type Access struct {
	// Name is who asks, and goes to the audit. Nobody without a name is let in.
	Name string
	// Scopes are those whose calls may be seen and acted on; nil means all. Counts and
	// sessions of the server are of all scopes, and not shown to those who see some.
	Scopes []string
	// Keys says whether lists show keys, and not their hashes. Without it a call is found by
	// those who know its key.
	Keys bool
	// Results says whether results, refusals and the statements of effects are shown.
	Results bool
	// Act says whether records may be freed and effects resolved.
	Act bool
}

//go:embed static
var static embed.FS

type console struct {
	d      *dedup.Deduper
	tools  *external.Tools
	access func(*http.Request) Access
	db     inspect.Database
	// counts are read by the name of the window, and needs for those who see all scopes.
	counts map[string]*cached[*overview]
	needs  *cached[*attention]
}

// New returns the console of d. Mount it behind [http.StripPrefix], at a path that ends with a
// slash:
//
//	mux.Handle("/console/", http.StripPrefix("/console", handler))
//
// It sends nothing, and starts no goroutine. The error is an
// [dedup.ErrInvalid].
func New(d *dedup.Deduper, opts Options) (http.Handler, error) { return newHandler(d, opts, every) }

func newHandler(d *dedup.Deduper, opts Options, every time.Duration) (http.Handler, error) {
	invalid := func(field, reason string) error {
		return &dedup.InvalidError{What: "option", Field: field, Reason: reason}
	}
	switch {
	case d == nil:
		return nil, invalid("d", "must come from dedup.New")
	case opts.Access == nil:
		return nil, invalid("Access", "is required: it says who may see and do what")
	case opts.Tools != nil && opts.Tools.Deduper() != d:
		return nil, invalid("Tools", "must be those of d")
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
		mux.Handle(pattern, c.visited(show))
	}
	files := http.FileServerFS(static)
	mux.HandleFunc("GET /style.css", served(files))
	mux.HandleFunc("GET /live.js", served(files))
	mux.HandleFunc("GET /icon.svg", served(files))
	return secured(http.NewCrossOriginProtection().Handler(mux))
}

// served serves a file of the folder static.
func served(files http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		files.ServeHTTP(w, withPath(r, "/static"+r.URL.Path))
	}
}

// policy lets a page use what comes from its own handler, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// secured sets what every answer has.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		// Browsers that name no Sec-Fetch-Site are known by the Origin, which no-referrer hides.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case r.URL.Path == "" && !strings.HasSuffix(strings.TrimSuffix(r.RequestURI, "?"+r.URL.RawQuery), "/"): // a mount without the slash, which links are relative to
			h.Set("Location", path.Base(strings.TrimSuffix(r.RequestURI, "?"+r.URL.RawQuery))+"/")
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		case !strings.HasPrefix(r.URL.Path, "/"): // StripPrefix with the slash
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
