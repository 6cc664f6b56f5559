package httpdedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const problemBase = "https://github.com/tooldedup/dedup/blob/main/httpdedup/problems.md#"

// limit ends a test that hangs, long before the test binary's timeout.
const limit = time.Minute

// shop has its own database with a table orders, a server, and the errors that OnError got.
type shop struct {
	pool *pgxpool.Pool
	d    *dedup.Deduper
	m    *httpdedup.Middleware
	mux  *http.ServeMux
	srv  *httptest.Server

	mu   sync.Mutex
	errs []error
}

// open makes a shop. Add handlers to its mux before the first request.
func open(t testing.TB, opts httpdedup.Options, conf ...func(*pgxpool.Config)) *shop {
	t.Helper()
	s := &shop{pool: pgtest.New(t).Pool(t, conf...), mux: http.NewServeMux()}
	_, err := s.pool.Exec(t.Context(), `CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY, item text NOT NULL)`)
	require.NoError(t, err)
	s.d, err = dedup.New(s.pool, nil)
	require.NoError(t, err)
	s.use(t, opts)
	s.srv = httptest.NewServer(s.mux)
	t.Cleanup(s.srv.Close)
	return s
}

// use makes the shop's middleware.
func (s *shop) use(t testing.TB, opts httpdedup.Options) {
	t.Helper()
	if opts.Scope == nil {
		opts.Scope = tenant
	}
	opts.OnError = func(_ *http.Request, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, err)
	}
	var err error
	s.m, err = httpdedup.New(s.d, opts)
	require.NoError(t, err)
}

// tenant reads the scope from a token that is the tenant's name.
func tenant(r *http.Request) (string, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", errors.New("no token")
	}
	return name, nil
}

// handle serves a handler behind the middleware.
func (s *shop) handle(pattern, tool string, h http.HandlerFunc) {
	s.mux.Handle(pattern, s.m.Wrap(tool, h))
}

// order is a handler that stores the order in the body.
func order(w http.ResponseWriter, r *http.Request) {
	var in struct{ Item string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, "what item?", http.StatusBadRequest)
		return
	}
	id, err := insert(r.Context(), in.Item)
	if err != nil {
		http.Error(w, "no order", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/orders/1")
	w.Header().Set("X-Once", "yes")
	http.SetCookie(w, &http.Cookie{Name: "session", Value: "secret"})
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"id": id, "item": in.Item})
}

func insert(ctx context.Context, item string) (id int, err error) {
	tx, ok := httpdedup.Tx(ctx)
	if !ok {
		return 0, errors.New("no transaction")
	}
	err = tx.QueryRow(ctx, `INSERT INTO orders (item) VALUES ($1) RETURNING id`, item).Scan(&id)
	return id, err
}

// reply is an answer and its whole body.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) replayed() bool { return r.header.Get("Idempotency-Replayed") == "true" }

// problem is the body of one of the middleware's own answers.
type problem struct {
	Type, Title, Detail string
	Status              int
	Changed             []string
	State               string
}

func (r reply) problem(t testing.TB) problem {
	t.Helper()
	require.Equal(t, "application/problem+json", r.header.Get("Content-Type"), r.body)
	require.Equal(t, "no-store", r.header.Get("Cache-Control"))
	var p problem
	require.NoError(t, json.Unmarshal([]byte(r.body), &p))
	require.Equal(t, r.status, p.Status)
	require.NotEmpty(t, p.Title)
	require.NotEmpty(t, p.Detail)
	p.Type = strings.TrimPrefix(p.Type, problemBase)
	return p
}

// request makes a request of the tenant acme; change modifies it.
func (s *shop) request(t testing.TB, method, path, key, body string, change ...func(*http.Request)) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.srv.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer acme")
	if key != "" {
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, f := range change {
		f(r)
	}
	return r
}

// as changes the tenant of a request.
func as(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+name) }
}

func (s *shop) send(r *http.Request) (reply, error) {
	res, err := s.srv.Client().Do(r)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(body)}, err
}

func (s *shop) do(t testing.TB, method, path, key, body string, change ...func(*http.Request)) reply {
	t.Helper()
	got, err := s.send(s.request(t, method, path, key, body, change...))
	require.NoError(t, err)
	return got
}

// post sends an order.
func (s *shop) post(t testing.TB, key, body string, change ...func(*http.Request)) reply {
	t.Helper()
	return s.do(t, http.MethodPost, "/orders", key, body, change...)
}

// count returns the number of rows of a table.
func (s *shop) count(t testing.TB, table string) (n int) {
	t.Helper()
	require.NoError(t, s.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize()).Scan(&n))
	return n
}

// told returns the errors that OnError got since the last call of told.
func (s *shop) told() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := s.errs
	s.errs = nil
	return errs
}

// pass makes every record older by the given time.
func (s *shop) pass(t testing.TB, interval string) {
	t.Helper()
	_, err := s.pool.Exec(t.Context(), `
		UPDATE tool_dedup
		SET created_at = created_at - $1::text::interval,
		    expires_at = expires_at - $1::text::interval,
		    forget_at = forget_at - $1::text::interval`, interval)
	require.NoError(t, err)
}

// wait waits for a signal, and fails the test if it does not come.
func wait[T any](t testing.TB, signal <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-signal:
	case <-time.After(limit):
		t.Fatal("a signal did not come")
	}
	return value
}
