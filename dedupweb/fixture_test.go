package dedupweb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/dedupweb"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// bundle is a console mounted at /console/ and a process that calls tools.
type bundle struct {
	db    *pgtest.DB
	pool  *pgxpool.Pool
	d     *dedup.Deduper
	tools *external.Tools
	pay   *external.Handle[payment, receipt]
	url   string
	// counted is how often the counts were read.
	counted atomic.Int64
}

// asking is the header with the visitor's name.
const asking = "X-Asking"

// visitors are the rights by name.
var visitors = map[string]dedupweb.Access{
	"nobody": {},
	"reader": {Name: "reader"},
	"keeper": {Name: "keeper", Keys: true, Results: true},
	"actor":  {Name: "actor", Keys: true, Act: true},
	"blind":  {Name: "blind", Act: true},
	"scoped": {Name: "scoped", Scopes: []string{"acme"}, Keys: true, Results: true, Act: true},
	"none":   {Name: "none", Scopes: []string{}, Keys: true},
}

type payment struct {
	Order int `json:"order"`
}

type receipt struct {
	ID string `json:"id"`
}

// TraceQueryStart implements [pgx.QueryTracer].
func (b *bundle) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "tool_dedup_stat") {
		b.counted.Add(1)
	}
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (b *bundle) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func setup(t *testing.T, db *pgtest.DB, every time.Duration) *bundle {
	t.Helper()
	b := &bundle{db: db}
	b.pool = db.Pool(t, func(config *pgxpool.Config) { config.ConnConfig.Tracer = b })
	var err error
	b.d, err = dedup.New(b.pool, nil)
	require.NoError(t, err)
	b.tools, err = external.New(b.d, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.tools.Close(context.WithoutCancel(t.Context())) })
	tried := false
	b.pay, err = external.Add(b.tools, external.Tool[payment, receipt]{
		Name: "pay",
		Perform: func(context.Context, external.Attempt, payment) (receipt, error) {
			if !tried { // in a test that attempts it again there is one call
				tried = true
				return receipt{}, errors.New("the answer is lost")
			}
			return receipt{"again"}, nil
		},
	})
	require.NoError(t, err)
	access := func(r *http.Request) dedupweb.Access { return visitors[r.Header.Get(asking)] }
	console, err := dedupweb.NewEvery(b.d, dedupweb.Options{Access: access, Tools: b.tools}, every)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/console/", http.StripPrefix("/console", console))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b.url = server.URL + "/console/"
	return b
}

func (b *bundle) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

// do makes a call whose result is secret.
func (b *bundle) do(t *testing.T, scope, key string) {
	t.Helper()
	_, err := dedup.Do(t.Context(), b.d, dedup.Call{Scope: scope, Tool: "refund", Key: key}, func(context.Context, pgx.Tx) (string, error) {
		return "hunter2", nil
	})
	require.NoError(t, err)
}

// breaks makes a call whose effect ends its own transaction.
func (b *bundle) breaks(t *testing.T, scope, key string) {
	t.Helper()
	_, err := dedup.Do(t.Context(), b.d, dedup.Call{Scope: scope, Tool: "refund", Key: key}, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Conn().Exec(ctx, "COMMIT")
		return "", err
	})
	require.ErrorIs(t, err, dedup.ErrBroken)
}

// park makes a call whose reply is lost.
func (b *bundle) park(t *testing.T, scope, key string) external.Operation {
	t.Helper()
	_, err := b.pay.Do(t.Context(), dedup.Call{Scope: scope, Key: key}, payment{7})
	require.Error(t, err)
	status, err := b.tools.Status(t.Context(), scope, "pay", key)
	require.NoError(t, err)
	op := status.Operation
	require.Equal(t, external.StateParked, op.State)
	return op
}

// hold makes a call and returns when it is in its effect. The call ends with the test.
func (b *bundle) hold(t *testing.T, scope, key string) {
	t.Helper()
	holdOf(t, b.d, scope, key)
}

// holdElsewhere makes such a call in another process.
func (b *bundle) holdElsewhere(t *testing.T, opts *dedup.Options, scope, key string) {
	t.Helper()
	d, err := dedup.New(b.db.Pool(t, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["application_name"] = "elsewhere" }), opts)
	require.NoError(t, err)
	holdOf(t, d, scope, key)
}

func holdOf(t *testing.T, d *dedup.Deduper, scope, key string) {
	t.Helper()
	entered, leave, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: scope, Tool: "refund", Key: key}, func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, "SELECT 'account-4711'")
			close(entered)
			<-leave
			return "late", err
		})
		ended <- err
	}()
	<-entered
	t.Cleanup(func() {
		close(leave)
		require.NoError(t, <-ended)
	})
}

// answer is a response.
type answer struct {
	code   int
	header http.Header
	text   string
}

// client does not follow redirects.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (b *bundle) send(t *testing.T, who, method, page string, form url.Values, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.url+page, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set(asking, who)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, dedupweb.Policy, res.Header.Get("Content-Security-Policy"), page)
	return answer{res.StatusCode, res.Header, string(text)}
}

func (b *bundle) get(t *testing.T, who, page string) answer {
	t.Helper()
	return b.send(t, who, http.MethodGet, page, nil)
}

// page gets a page, which must be complete.
func (b *bundle) page(t *testing.T, who, page string) string {
	t.Helper()
	got := b.get(t, who, page)
	require.Equal(t, http.StatusOK, got.code, "%s: %s", page, got.text)
	require.Contains(t, got.text, "</html>")
	require.NotRegexp(t, `style=|<style|<script>|onclick|href="/|src="/|action="/|http://|https://`, got.text)
	return got.text
}

func (b *bundle) post(t *testing.T, who, page string, form url.Values, headers ...string) answer {
	t.Helper()
	return b.send(t, who, http.MethodPost, page, form, headers...)
}

func callPage(scope, tool, key string) string {
	return "call?" + url.Values{"scope": {scope}, "tool": {tool}, "key": {key}}.Encode()
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// form returns the fields that a browser would send for a page's form.
func form(page string, more ...string) url.Values {
	values := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(page, -1) {
		values.Set(field[1], strings.NewReplacer("&#43;", "+", "&#34;", `"`).Replace(field[2]))
	}
	for i := 0; i < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	return values
}

func recorded(n int) string {
	return fmt.Sprintf(`INSERT INTO tool_dedup_stat (at, instance, tool, outcome, calls, seconds, waited) VALUES
	(now() - interval '1 hour', 'a', 'refund', 'executed', %d, 6, 0),
	(now() - interval '3 hours', 'b', 'refund', 'replayed', 25, 1, 0),
	(now() - interval '3 hours', 'b', 'refund', 'unknown', 1, 1, 0),
	(now() - interval '3 days', 'b', 'refund', 'executed', 1000, 1, 0)`, n)
}
