package httpdedup_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/httpdedup"
)

type (
	chargeIn struct {
		Order string `json:"order"`
	}
	charge struct {
		ID string `json:"id"`
	}
	declined struct{ error }
)

func (declined) Code() string { return "card_declined" }

// till is a shop with a tool charge, whose effect is outside of the database. Its orders say
// what becomes of them; the order "slow" enters, and leaves once it is released.
type till struct {
	*shop
	x                *external.Tools
	entered, release chan struct{}
}

func openTill(t *testing.T, opts httpdedup.Options) *till {
	t.Helper()
	s := &till{shop: open(t, httpdedup.Options{}), entered: make(chan struct{}), release: make(chan struct{})}
	var err error
	s.x, err = external.New(s.d, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
		defer cancel()
		require.NoError(t, s.x.Close(ctx))
	})
	s.add(t, s.x)
	opts.External = s.x
	opts.MaxWait = -1
	s.guard(t, opts)
	impatient := s.m.External("charge")
	opts.MaxWait = 0
	s.guard(t, opts)
	patient := s.m.External("charge")
	s.mux.HandleFunc("/charges", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Impatient") != "" {
			impatient.ServeHTTP(w, r)
			return
		}
		patient.ServeHTTP(w, r)
	})
	s.mux.Handle("/operations/", s.m.Operations())
	return s
}

func (s *till) add(t *testing.T, x *external.Tools) *external.Handle[chargeIn, charge] {
	t.Helper()
	h, err := external.Add(x, external.Tool[chargeIn, charge]{
		Name: "charge",
		Perform: func(ctx context.Context, _ external.Attempt, in chargeIn) (charge, error) {
			switch in.Order {
			case "lost":
				return charge{}, errors.New("the answer is lost")
			case "declined":
				return charge{}, dedup.Final(declined{errors.New("the card was declined")})
			case "slow":
				close(s.entered)
				select {
				case <-s.release:
				case <-ctx.Done():
				}
			}
			return charge{"ch_<" + in.Order + ">"}, nil
		},
	})
	require.NoError(t, err)
	return h
}

func (s *till) charge(t *testing.T, key, order string, change ...func(*http.Request)) reply {
	t.Helper()
	return s.do(t, http.MethodPost, "/charges", key, `{"order": "`+order+`"}`, change...)
}

// impatient has a request answered at once.
func impatient(r *http.Request) { r.Header.Set("X-Impatient", "yes") }

var moment = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)"`)

// golden is an answer in lines: status, headers that say what to do, body.
func (r reply) golden() string {
	var b strings.Builder
	b.WriteString(http.StatusText(r.status) + "\n")
	for _, name := range []string{"Location", "Retry-After", "Idempotency-Replayed", "Content-Type", "Cache-Control"} {
		if value := r.header.Get(name); value != "" {
			b.WriteString(name + ": " + value + "\n")
		}
	}
	body := strings.ReplaceAll(r.body, problemBase, "#")
	return b.String() + moment.ReplaceAllString(body, `"TIME"`)
}

func requireAnswer(t *testing.T, want string, got reply) {
	t.Helper()
	require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(got.golden()))
}

// TestExternalAnswers holds the answers of each state, to the request, to its repeat, and to
// those who look it up.
func TestExternalAnswers(t *testing.T) {
	t.Parallel()
	s := openTill(t, httpdedup.Options{RetryAfter: 2 * time.Second})
	look := func(key string) reply { return s.do(t, http.MethodGet, "/operations/charge/"+key, "", "") }

	requireAnswer(t, `
OK
Content-Type: application/json
{"id":"ch_<o-1>"}`, s.charge(t, "done", "o-1"))
	requireAnswer(t, `
OK
Idempotency-Replayed: true
Content-Type: application/json
{"id":"ch_<o-1>"}`, s.charge(t, "done", "o-1"))
	requireAnswer(t, `
OK
Content-Type: application/json
Cache-Control: no-store
{"state":"done","first_at":"TIME","expires_at":"TIME","forget_at":"TIME","result":{"id":"ch_\u003co-1\u003e"}}`, look("done"))

	const refused = `Content-Type: application/problem+json
Cache-Control: no-store
{"type":"#refused","title":"The request was refused, and always will be","status":422,"detail":"the card was declined","code":"card_declined"}`
	requireAnswer(t, "Unprocessable Entity\n"+refused, s.charge(t, "refused", "declined"))
	requireAnswer(t, "Unprocessable Entity\nIdempotency-Replayed: true\n"+refused, s.charge(t, "refused", "declined"))
	requireAnswer(t, `
OK
Content-Type: application/json
Cache-Control: no-store
{"state":"refused","first_at":"TIME","expires_at":"TIME","forget_at":"TIME","refusal":{"message":"the card was declined","code":"card_declined"}}`, look("refused"))

	for range 2 {
		requireAnswer(t, `
Accepted
Location: /operations/charge/parked
Retry-After: 300
Content-Type: application/json
Cache-Control: no-store
{"state":"parked","since":"TIME"}`, s.charge(t, "parked", "lost"))
	}
	requireAnswer(t, `
OK
Retry-After: 300
Content-Type: application/json
Cache-Control: no-store
{"state":"parked","since":"TIME"}`, look("parked"))

	for i := range 2 {
		requireAnswer(t, `
Accepted
Location: /operations/charge/run%2Fning%3F
Retry-After: 2
Content-Type: application/json
Cache-Control: no-store
{"state":"running"}`, s.charge(t, "run/ning?", "slow", impatient))
		if i == 0 {
			<-s.entered
		}
	}
	requireAnswer(t, `
OK
Retry-After: 2
Content-Type: application/json
Cache-Control: no-store
{"state":"running"}`, look("run%2Fning%3F"))
	close(s.release)
	require.Equal(t, `{"id":"ch_<slow>"}`, s.charge(t, "run/ning?", "slow").body)

	// What somebody has accepted, and nobody has begun.
	other, err := external.New(s.d, nil)
	require.NoError(t, err)
	h := s.add(t, other)
	require.NoError(t, pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		_, err := h.Accept(t.Context(), tx, dedup.Call{Scope: "acme", Key: "pending"}, chargeIn{"o-1"})
		return err
	}))
	requireAnswer(t, `
OK
Retry-After: 2
Content-Type: application/json
Cache-Control: no-store
{"state":"pending"}`, look("pending"))

	s.pass(t, "2 days")
	requireAnswer(t, `
OK
Content-Type: application/json
Cache-Control: no-store
{"state":"expired","first_at":"TIME","expires_at":"TIME","forget_at":"TIME"}`, look("done"))
	require.Equal(t, http.StatusGone, s.charge(t, "done", "o-1").status)

	const unknown = `
Not Found
Content-Type: application/problem+json
Cache-Control: no-store
{"type":"#unknown-operation","title":"No such operation","status":404,"detail":"Nothing has run with this tool and key, or it is forgotten. A request that is on its way may run yet.","state":"unknown"}`
	requireAnswer(t, unknown, look("none"))
	for _, key := range []string{"done", "parked", "pending", "run%2Fning%3F"} {
		requireAnswer(t, unknown, s.do(t, http.MethodGet, "/operations/charge/"+key, "", "", as("globex"))) // another's
	}
	require.Empty(t, s.told())
}

func TestExternalRefusesRequests(t *testing.T) {
	t.Parallel()
	s := openTill(t, httpdedup.Options{OperationsPath: "https://api.example.com/v1/ops"})
	_, err := s.pool.Exec(t.Context(), `ALTER TABLE tool_effect ADD CONSTRAINT secret CHECK (input NOT LIKE '%fault%')`)
	require.NoError(t, err)
	for _, c := range []struct {
		method, key, body string
		status            int
		problem           string
	}{
		{http.MethodGet, "k", "", 405, "method-not-allowed"},
		{http.MethodPost, "", `{"order": "o-1"}`, 400, "missing-key"},
		{http.MethodPost, "k", `{"order": 7}`, 400, "invalid-body"},
		{http.MethodPost, "k", `[]`, 400, "invalid-body"},
		{http.MethodPost, "k", ``, 400, "invalid-body"},
		{http.MethodPost, "k", `{"order": "o-1", "order": "o-2"}`, 400, "invalid-body"},
		{http.MethodPost, "k", `{"order": "fault"}`, 500, "internal"},
	} {
		got := s.do(t, c.method, "/charges", c.key, c.body)
		require.Equal(t, c.status, got.status, c.body)
		require.Equal(t, c.problem, got.problem(t).Type, c.body)
		require.NotContains(t, got.body, "secret")
	}
	require.Len(t, s.told(), 1)
	require.Zero(t, s.count(t, "tool_effect"))
	require.Equal(t, http.StatusForbidden, s.charge(t, "k", "o-1", func(r *http.Request) { r.Header.Del("Authorization") }).status)

	require.Equal(t, http.StatusOK, s.charge(t, "k", "o-1").status)
	reused := s.charge(t, "k", "o-2")
	require.Equal(t, []string{"body.order"}, reused.problem(t).Changed)
	require.Equal(t, http.StatusOK, s.charge(t, "k", "o-2", as("globex")).status, "a key is its scope's")

	got := s.charge(t, "p", "lost")
	require.Equal(t, "https://api.example.com/v1/ops/charge/p", got.header.Get("Location"))
	require.PanicsWithError(t, `httpdedup: External: Options.External has no tool "other"`, func() { s.m.External("other") })
	other, err := dedup.New(s.pool, nil)
	require.NoError(t, err)
	var invalid *dedup.InvalidError
	_, err = httpdedup.New(other, httpdedup.Options{Scope: tenant, External: s.x})
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "External", invalid.Field)
}

// TestExternalOutlivesItsRequest: the client leaves, the effect is carried out, and the same
// request has its answer.
func TestExternalOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	s := openTill(t, httpdedup.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	r := s.request(t, http.MethodPost, "/charges", "k", `{"order": "slow"}`).WithContext(ctx)
	go func() {
		_, err := s.send(r)
		left <- err
	}()
	<-s.entered
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	close(s.release)
	got := s.charge(t, "k", "slow")
	require.Equal(t, http.StatusOK, got.status)
	require.JSONEq(t, `{"id":"ch_<slow>"}`, got.body)
}

// TestOperationsOfBothKinds: what handlers have recorded is told as it is without
// Options.External.
func TestOperationsOfBothKinds(t *testing.T) {
	t.Parallel()
	s := openTill(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", order)
	s.post(t, "k", `{"item": "lamp"}`)
	op := s.operation(t, "create_order", "k")
	require.Equal(t, "done", op.State)
	require.Equal(t, http.StatusCreated, op.Response.Status)
}
