package dedupweb

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/inspect"
	"github.com/tooldedup/dedup/internal/table"
)

// visit is one request of a visitor with access.
type visit struct {
	Access
	c *console
	w http.ResponseWriter
	r *http.Request
}

// withAccess refuses visitors without access, and answers a page's error.
func (c *console) withAccess(show func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Access: c.access(r), c: c, w: w, r: r}
		if v.Name == "" {
			http.Error(w, "You have no access to this console.", http.StatusForbidden)
			return
		}
		err := show(v)
		if err == nil {
			return
		}
		failed, ok := errors.AsType[*failure](err)
		if !ok {
			failed = &failure{http.StatusInternalServerError, errorText(err)}
		}
		if err := v.render(failed.code, "failure", failed.text, nil); err != nil {
			http.Error(w, failed.text, failed.code)
		}
	})
}

// sees reports whether the visitor may see calls of a scope.
func (a *Access) sees(scope string) bool { return a.seesAll() || slices.Contains(a.Scopes, scope) }

func (a *Access) seesAll() bool { return a.Scopes == nil }

// identity returns the call that a request names, if the visitor may see it.
func (v *visit) identity() (call, error) {
	id := call{Scope: v.r.FormValue("scope"), Tool: v.r.FormValue("tool"), Key: v.r.FormValue("key"), Keys: true}
	if field, problem := (table.Identity{Scope: id.Scope, Tool: id.Tool, Key: id.Key}).Problem(); problem != "" {
		return id, fail(http.StatusBadRequest, "%s %s.", field, problem)
	}
	if !v.sees(id.Scope) {
		return id, fail(http.StatusForbidden, "You may not see this scope.")
	}
	return id, nil
}

// call is a call's name on a page.
type call struct {
	Scope, Tool, Key string
	// Keys is true if the key is shown.
	Keys bool
}

// Call returns a call's name with the visitor's right to see keys.
func (v view) Call(scope, tool, key string) call { return call{scope, tool, key, v.Keys} }

// Hash is shown instead of the key.
func (c call) Hash() string { return dedup.KeyHash(c.Key) }

// Link is the address of the call's page.
func (c call) Link() string { return link("call", "scope", c.Scope, "tool", c.Tool, "key", c.Key) }

// link returns the address of a page with its non-empty fields.
func link(page string, fields ...string) string {
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			values.Set(fields[i], fields[i+1])
		}
	}
	return page + "?" + values.Encode()
}

// failure is an error with the status and the text of its page.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

var noSuchPage = fail(http.StatusBadRequest, "There is no such page of the list.")

func fail(code int, format string, args ...any) error {
	return &failure{code, fmt.Sprintf(format, args...)}
}

// errorText describes an error for visitors, without the database's address.
func errorText(err error) string {
	server, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case inspect.IsMissing(err):
		return "A table is missing; `dedup migrate check` says which."
	case ok:
		return fmt.Sprintf("The database refused the statement: %s (SQLSTATE %s).", server.Message, server.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return "The database took too long."
	default:
		return "The database cannot be reached."
	}
}

// view is the data of a page's template.
type view struct {
	Page string
	Access
	// Needs has everything that needs an operator, nil if it could not be read.
	Needs *attention
	Body  any
}

//go:embed templates
var texts embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"at":        func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") },
	"raw":       func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"percent":   func(rate float64) string { return fmt.Sprintf("%.1f %%", 100*rate) },
	"seconds":   func(n float64) string { return inspect.Lasting(time.Duration(n * float64(time.Second))) },
	"ago":       inspect.Ago,
	"lasting":   inspect.Lasting,
	"count":     count,
	"link":      link,
	"linkof":    outcomeLink,
	"printable": inspect.Printable,
	"tone":      tone,
	"words":     words,
}).ParseFS(texts, "templates/*.html"))

// render writes a page.
func (v *visit) render(code int, page string, body any, needs *attention) error {
	var text bytes.Buffer
	data := view{page, v.Access, needs, body}
	for _, part := range []string{"top", page, "bottom"} {
		if err := pages.ExecuteTemplate(&text, part, data); err != nil {
			return err
		}
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(code)
	_, _ = v.w.Write(text.Bytes()) // an error means that the visitor has left
	return nil
}

// page writes a page with the number of needs beside the link to Attention.
func (v *visit) page(page string, body any) error { return v.pageAs(http.StatusOK, page, body) }

func (v *visit) pageAs(code int, page string, body any) error {
	needs, ok := body.(*attention)
	var err error
	switch {
	case ok:
	case v.seesAll():
		needs, err = v.c.needs.latest(v.r.Context())
	default:
		needs, err = v.c.readAttention(v.r.Context(), v.Scopes)
	}
	if err != nil {
		needs = nil
	}
	return v.render(code, page, body, needs)
}

// redirect sends the visitor to a page of the console. The address is relative, so any mount works.
func (v *visit) redirect(link string) error {
	v.w.Header().Set("Location", link)
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}
