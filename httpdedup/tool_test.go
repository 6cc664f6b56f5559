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
	"github.com/tooldedup/dedup/tool"
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

// till is a shop with an external tool charge. The order decides the outcome; the order "slow"
// waits until it is released.
type till struct {
	*shop
	tools            *tool.Registry
	entered, release chan struct{}
}

func openTill(t *testing.T, opts httpdedup.Options) *till {
	t.Helper()
	s := &till{shop: open(t, httpdedup.Options{}), entered: make(chan struct{}), release: make(chan struct{})}
	x, err := external.New(s.d, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
		defer cancel()
		require.NoError(t, x.Close(ctx))
	})
	s.tools = tool.NewRegistry(s.d, &tool.Options{External: x})
	require.NoError(t, s.tools.Add(tool.ExternalTool[chargeIn, charge]{Tool: s.charging()}))
	opts.Tools = s.tools
	opts.MaxWait = -1
	s.use(t, opts)
	impatient := s.m.Tool("charge")
	opts.MaxWait = 0
	s.use(t, opts)
	patient := s.m.Tool("charge")
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

func (s *till) charging() external.Tool[chargeIn, charge] {
	return external.Tool[chargeIn, charge]{
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
	}
}

func (s *till) charge(t *testing.T, key, order string, change ...func(*http.Request)) reply {
	t.Helper()
	return s.do(t, http.MethodPost, "/charges", key, `{"order": "`+order+`"}`, change...)
}

// impatient does not let a request wait.
func impatient(r *http.Request) { r.Header.Set("X-Impatient", "yes") }

var moment = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)"`)

// golden returns an answer as lines: status, headers for the client, body.
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

// TestExternalToolAnswers checks the answers of each state: to the request, to its repeat, and to a
// look-up.
func TestExternalToolAnswers(t *testing.T) {
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
{"state":"done","created_at":"TIME","expires_at":"TIME","forget_at":"TIME","result":{"id":"ch_\u003co-1\u003e"}}`, look("done"))

	const refused = `Content-Type: application/problem+json
Cache-Control: no-store
{"type":"#refused","title":"The request was refused, and always will be","status":422,"detail":"the card was declined","code":"card_declined"}`
	requireAnswer(t, "Unprocessable Entity\n"+refused, s.charge(t, "refused", "declined"))
	requireAnswer(t, "Unprocessable Entity\nIdempotency-Replayed: true\n"+refused, s.charge(t, "refused", "declined"))
	requireAnswer(t, `
OK
Content-Type: application/json
Cache-Control: no-store
{"state":"refused","created_at":"TIME","expires_at":"TIME","forget_at":"TIME","refusal":{"message":"the card was declined","code":"card_declined"}}`, look("refused"))

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

	// An operation that was accepted and that no process has begun.
	other, err := external.New(s.d, nil)
	require.NoError(t, err)
	h, err := external.Add(other, s.charging())
	require.NoError(t, err)
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
{"state":"expired","created_at":"TIME","expires_at":"TIME","forget_at":"TIME"}`, look("done"))
	require.Equal(t, http.StatusGone, s.charge(t, "done", "o-1").status)

	const unknown = `
Not Found
Content-Type: application/problem+json
Cache-Control: no-store
{"type":"#unknown-operation","title":"No such operation","status":404,"detail":"Nothing has run with this tool and key, or it is forgotten. A request that is on its way may run yet.","state":"not_found"}`
	requireAnswer(t, unknown, look("none"))
	for _, key := range []string{"done", "parked", "pending", "run%2Fning%3F"} {
		requireAnswer(t, unknown, s.do(t, http.MethodGet, "/operations/charge/"+key, "", "", as("globex"))) // another tenant's
	}
	require.Empty(t, s.told())
}

func TestExternalToolRefusesRequests(t *testing.T) {
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
		{http.MethodPost, "k", `null`, 400, "invalid-body"},
		{http.MethodPost, "k", `{}`, 400, "invalid-body"},
		{http.MethodPost, "k", `{"order": null}`, 400, "invalid-body"},
		{http.MethodPost, "k", `{"Order": "o-1"}`, 400, "invalid-body"},
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
	require.Equal(t, []string{"order"}, reused.problem(t).Changed)
	require.Equal(t, http.StatusOK, s.charge(t, "k", "o-2", as("globex")).status, "a key is its scope's")

	got := s.charge(t, "p", "lost")
	require.Equal(t, "https://api.example.com/v1/ops/charge/p", got.header.Get("Location"))
	got = s.charge(t, "..", "lost")
	require.Equal(t, http.StatusAccepted, got.status)
	require.Empty(t, got.header.Get("Location"), "no path can hold it")
	require.PanicsWithError(t, `httpdedup: Tool: Options.Tools has no tool "other"`, func() { s.m.Tool("other") })
	other, err := dedup.New(s.pool, nil)
	require.NoError(t, err)
	var invalid *dedup.InvalidError
	_, err = httpdedup.New(other, httpdedup.Options{Scope: tenant, Tools: s.tools})
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "Tools", invalid.Field)
}

// TestExternalToolOutlivesItsRequest: the client leaves, the operation is carried out, and the same
// request gets its answer.
func TestExternalToolOutlivesItsRequest(t *testing.T) {
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

// TestOperationsOfBothKinds: records of handlers are reported the same without Options.Tools.
func TestOperationsOfBothKinds(t *testing.T) {
	t.Parallel()
	s := openTill(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", order)
	s.post(t, "k", `{"item": "lamp"}`)
	op := s.operation(t, "create_order", "k")
	require.Equal(t, "done", op.State)
	require.Equal(t, http.StatusCreated, op.Response.Status)
}

type noteIn struct {
	Item string `json:"item"`
	Note string `json:"note,omitempty" dedup:"ignore"`
}

type cancelIn struct {
	Order string `json:"order" dedup:"key"`
}

// shelf is a shop with tools of a registry, which an agent's loop calls too.
func openShelf(t *testing.T) (*shop, *tool.Registry) {
	t.Helper()
	s := open(t, httpdedup.Options{})
	tools := tool.NewRegistry(s.d, nil)
	insert := func(ctx context.Context, tx pgx.Tx, item string) (id int, err error) {
		err = tx.QueryRow(ctx, `INSERT INTO orders (item) VALUES ($1) RETURNING id`, item).Scan(&id)
		return id, err
	}
	require.NoError(t, tools.Add(
		tool.Tool[noteIn, map[string]any]{
			Name: "order", RecordedAs: "create_order", Class: tool.Write,
			Run: func(ctx context.Context, tx pgx.Tx, in noteIn) (map[string]any, error) {
				if in.Item == "gone" {
					return nil, dedup.Final(declined{errors.New("sold out")})
				}
				if in.Item == "broken" {
					return nil, errors.New("canary")
				}
				id, err := insert(ctx, tx, in.Item)
				inv := tool.InvocationOf(ctx)
				return map[string]any{"id": id, "scope": inv.Scope, "tool": inv.Tool, "key": inv.Key, "session": inv.Session, "turn": inv.Turn}, err
			},
		},
		tool.Tool[cancelIn, int]{
			Name: "cancel", Class: tool.Destructive,
			Run: func(ctx context.Context, tx pgx.Tx, in cancelIn) (int, error) {
				return insert(ctx, tx, "cancel "+in.Order)
			},
		},
		tool.Tool[noteIn, int]{
			Name: "set", Class: tool.Idempotent,
			Run: func(ctx context.Context, tx pgx.Tx, in noteIn) (int, error) { return insert(ctx, tx, "set "+in.Item) },
		},
		tool.Tool[struct{}, int]{
			Name: "count", Class: tool.ReadOnly,
			Run: func(ctx context.Context, tx pgx.Tx, _ struct{}) (n int, err error) {
				return n, tx.QueryRow(ctx, `SELECT count(*) FROM orders`).Scan(&n)
			},
		},
	))
	s.use(t, httpdedup.Options{Tools: tools})
	for _, name := range []string{"order", "create_order", "cancel", "set", "count"} {
		s.mux.Handle("/"+name, s.m.Tool(name))
	}
	s.mux.Handle("/operations/", s.m.Operations())
	return s, tools
}

// withTurn makes a request of an agent that makes no keys.
func withTurn(turn string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Agent-Turn", turn) }
}

// TestToolAnswers: the tags, the class and the refusals of a registry's tool apply at this door.
func TestToolAnswers(t *testing.T) {
	t.Parallel()
	s, _ := openShelf(t)
	post := func(tool, key, body string, change ...func(*http.Request)) reply {
		return s.do(t, http.MethodPost, "/"+tool, key, body, change...)
	}
	for _, c := range []struct {
		tool, key, body string
		turn            string
		status          int
		answer          string
	}{
		{"order", "k", `{"item":"lamp","note":"soon"}`, `"s"; turn=4`, 200, `{"id":1,"key":"k","scope":"acme","session":"s","tool":"order","turn":4}`},
		{"order", "k", `{"item":"lamp","note":"later"}`, `broken`, 200, `{"id":1,"key":"k","scope":"acme","session":"s","tool":"order","turn":4}`},
		{"create_order", "k", `{"item":"lamp"}`, "", 200, `{"id":1,"key":"k","scope":"acme","session":"s","tool":"order","turn":4}`},
		{"order", "k", `{"item":"desk"}`, "", 422, "key-reused"},
		{"order", "", `{"item":"lamp"}`, "", 400, "missing-key"},
		{"order", "null", `{"item":"lamp"}`, "", 400, "invalid-key"},
		{"order", "", `{"item":"lamp"}`, `broken`, 400, "invalid-request"},
		{"order", "k2", `{"item":7}`, "", 400, "invalid-body"},
		{"order", "k3", `{"item":"gone"}`, "", 422, "refused"},
		{"order", "k4", `{"item":"broken"}`, "", 500, "internal"},
		{"cancel", "", `{"order":"o-1"}`, "", 200, `2`},
		{"cancel", "another", `{"order":"o-1"}`, "", 200, `2`},
		{"cancel", "", `{"order":""}`, "", 400, "invalid-body"},
		{"set", "", `{"item":"a"}`, "", 200, `3`},
		{"set", "k", `{"item":"a"}`, "", 200, `4`},
		{"set", "k", `{"item":"a"}`, "", 200, `4`},
		{"count", "", ``, "", 200, `4`},
		{"count", "null", `null`, "", 200, `4`},
	} {
		var change []func(*http.Request)
		if c.turn != "" {
			change = append(change, withTurn(c.turn))
		}
		got := post(c.tool, c.key, c.body, change...)
		require.Equal(t, c.status, got.status, "%+v: %s", c, got.body)
		require.NotContains(t, got.body, "canary")
		if c.status != http.StatusOK {
			require.Equal(t, c.answer, got.problem(t).Type, "%+v", c)
			continue
		}
		require.JSONEq(t, c.answer, got.body, "%+v", c)
	}
	require.Len(t, s.told(), 1)
	require.Equal(t, 4, s.count(t, "orders"))
	require.Contains(t, post("cancel", "", `{"order":""}`).problem(t).Detail, "a value for order")
	require.Equal(t, http.StatusMethodNotAllowed, s.do(t, http.MethodGet, "/order", "k", "").status)
	for _, name := range []string{"order", "create_order"} {
		require.Equal(t, "done", s.operation(t, name, "k").State, name)
	}
}

// TestToolSharesCalls: a call through this door and one through an agent's loop are one call, with
// a key and with a turn.
func TestToolSharesCalls(t *testing.T) {
	t.Parallel()
	s, tools := openShelf(t)
	body := `{"item":"lamp"}`
	for _, inv := range []tool.Invocation{
		{Scope: "acme", Key: "k"},
		{Scope: "acme", Session: "s", Turn: 4, CallID: "null"},
	} {
		inv.Tool, inv.Args = "order", []byte(body)
		var change []func(*http.Request)
		if inv.Session != "" {
			change = append(change, withTurn(`"s"; turn=4`))
		}
		first := s.do(t, http.MethodPost, "/order", inv.Key, body, change...)
		answer, err := tools.Invoke(t.Context(), inv)
		require.NoError(t, err)
		require.True(t, answer.Replayed)
		require.Equal(t, first.body, string(answer.JSON))
	}
	require.Equal(t, 2, s.count(t, "orders"))
}

// TestToolHidesInnerCalls: an invalid call inside a tool is the server's fault, and its client is
// not told to correct the body.
func TestToolHidesInnerCalls(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	tools := tool.NewRegistry(s.d, nil)
	require.NoError(t, tools.Add(tool.Tool[chargeIn, int]{Name: "order", Class: tool.Write, Run: func(ctx context.Context, tx pgx.Tx, _ chargeIn) (int, error) {
		result, err := dedup.DoTx(ctx, s.d, tx, dedup.Call{Scope: "acme", Tool: "inner"}, func(context.Context, pgx.Tx) (int, error) { return 1, nil })
		return result.Value, err
	}}))
	s.use(t, httpdedup.Options{Tools: tools})
	s.mux.Handle("POST /orders", s.m.Tool("order"))
	require.Equal(t, http.StatusInternalServerError, s.post(t, "k", `{"order":"o1"}`).status)
	require.Len(t, s.told(), 1)
}
