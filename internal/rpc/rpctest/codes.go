package rpctest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
	"github.com/tooldedup/dedup/tool"
)

// details returns the details of a status of the door's own.
func details(t *testing.T, s *status.Status) (info *errdetails.ErrorInfo, retry *errdetails.RetryInfo) {
	t.Helper()
	for _, packed := range s.GetDetails() {
		detail, err := packed.UnmarshalNew()
		require.NoError(t, err)
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			info = detail
		case *errdetails.RetryInfo:
			retry = detail
		}
	}
	require.Equal(t, rpc.Domain, info.GetDomain(), "%v", s)
	return info, retry
}

// codes: what can be brought about at a server has the reason and the code of the table in the
// package's documentation. TestStatus of package rpc has every reason.
func (door Door) codes(t *testing.T) {
	create := func(in *shop.CreateRequest, keys ...string) func(t *testing.T, s *server) Answer {
		return func(t *testing.T, s *server) Answer {
			t.Helper()
			_, answer := s.order(t, in, keys...)
			return answer
		}
	}
	scoped := func(scope string, err error) rpc.Options {
		return rpc.Options{Scope: func(context.Context) (string, error) { return scope, err }}
	}
	failing := func(effect func(ctx context.Context, tx pgx.Tx) error) func(*server, *Service) {
		return func(s *server, service *Service) {
			service.Create = func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
				tx, _ := door.Tx(ctx)
				return &shop.Order{}, effect(ctx, tx)
			}
		}
	}
	cases := map[string]struct {
		opts   rpc.Options
		change func(*server, *Service)
		send   func(t *testing.T, s *server) Answer
		code   code.Code
		reason string
		later  bool // RetryInfo is sent
		told   bool // to OnError
	}{
		"KeyRequired":   {send: create(lamp()), code: code.Code_INVALID_ARGUMENT, reason: "KEY_REQUIRED"},
		"KeyEmpty":      {send: create(lamp(), ""), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeyNull":       {send: create(lamp(), "null"), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeyLong":       {send: create(lamp(), strings.Repeat("k", 256)), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeysTwo":       {send: create(lamp(), "k1", "k2"), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeysJoined":    {send: create(lamp(), "k1, k2"), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeysDiffer":    {send: create(&shop.CreateRequest{RequestId: "k1"}, "k2"), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeyControl":    {send: create(&shop.CreateRequest{RequestId: "a\nb"}), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"AnyUnknown":    {send: create(&shop.CreateRequest{Note: &anypb.Any{TypeUrl: "type.googleapis.com/shop.v2.Line"}}, "k"), code: code.Code_INVALID_ARGUMENT, reason: "ARGUMENTS_INVALID"},
		"Unidentified":  {opts: scoped("", errors.New("canary")), send: create(lamp(), "k"), code: code.Code_UNAUTHENTICATED, reason: "UNIDENTIFIED", told: true},
		"ScopeEmpty":    {opts: scoped("", nil), send: create(lamp(), "k"), code: code.Code_UNAUTHENTICATED, reason: "UNIDENTIFIED", told: true},
		"ScopeOfItsOwn": {opts: scoped("", door.Error(&status.Status{Code: int32(code.Code_UNAUTHENTICATED), Message: "log in"})), send: create(lamp(), "k"), code: code.Code_UNAUTHENTICATED},
		"ScopeOK":       {opts: scoped("", door.Error(&status.Status{Message: "canary"})), send: create(lamp(), "k"), code: code.Code_UNAUTHENTICATED, reason: "UNIDENTIFIED", told: true},
		"FinalOK": {change: failing(func(context.Context, pgx.Tx) error {
			return dedup.Final(door.Error(&status.Status{Message: "canary"}))
		}), send: create(lamp(), "k"), code: code.Code_INTERNAL, reason: "FAILED", told: true},
		"Expired": {send: func(t *testing.T, s *server) Answer {
			create(lamp(), "k")(t, s)
			_, err := s.pool.Exec(t.Context(), `UPDATE tool_dedup SET created_at = created_at - interval '1 day', expires_at = created_at`)
			require.NoError(t, err)
			return create(lamp(), "k")(t, s)
		}, code: code.Code_FAILED_PRECONDITION, reason: "EXPIRED"},
		"NotKept": {opts: rpc.Options{Retention: dedup.Retention{Result: -1}}, send: func(t *testing.T, s *server) Answer {
			first, answer := s.order(t, lamp(), "k")
			require.Nil(t, answer.Status)
			require.NotEmpty(t, first.GetId())
			return create(lamp(), "k")(t, s)
		}, code: code.Code_FAILED_PRECONDITION, reason: "EXPIRED"},
		"OneNotKept": {opts: rpc.Options{RetentionOf: map[string]dedup.Retention{Create: {Result: -1}}}, send: func(t *testing.T, s *server) Answer {
			for range 2 {
				require.Nil(t, s.send(t.Context(), Pay, &shop.PayRequest{}, new(shop.Receipt), "k").Status, "another method keeps its response")
			}
			create(lamp(), "k")(t, s)
			return create(lamp(), "k")(t, s)
		}, code: code.Code_FAILED_PRECONDITION, reason: "EXPIRED"},
		"Blocked": {change: failing(func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO orders (item) VALUES ('canary')`)
			if err == nil {
				_, err = tx.Conn().Exec(ctx, `COMMIT`) // around the guard
			}
			return err
		}), send: create(lamp(), "k"), code: code.Code_FAILED_PRECONDITION, reason: "BLOCKED", told: true},
		"EndsItself": {change: failing(func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }), send: create(lamp(), "k"), code: code.Code_INTERNAL, reason: "FAILED", told: true},
		"FinalOfDatabase": {change: failing(func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT 'canary'::int`)
			return dedup.Final(err)
		}), send: func(t *testing.T, s *server) Answer {
			first := create(lamp(), "k")(t, s)
			require.NotContains(t, first.Status.GetMessage(), "canary")
			return create(lamp(), "k")(t, s)
		}, code: code.Code_FAILED_PRECONDITION, told: true},
		"NoSchema": {send: func(t *testing.T, s *server) Answer {
			_, err := s.pool.Exec(t.Context(), `ALTER TABLE tool_dedup RENAME TO canary`)
			require.NoError(t, err)
			return create(lamp(), "k")(t, s)
		}, code: code.Code_INTERNAL, reason: "FAILED", told: true},
		"InFlight": {opts: rpc.Options{MaxWait: -1, RetryAfter: 20 * time.Millisecond}, change: func(s *server, service *Service) {
			service.Create = func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
				if _, twin := s.order(t, in, "k"); twin.Status != nil {
					if twin.Wait == "" {
						return nil, errors.New("the client's library is not told to wait")
					}
					return nil, door.Error(twin.Status)
				}
				return &shop.Order{}, nil
			}
		}, send: create(lamp(), "k"), code: code.Code_ABORTED, reason: "IN_FLIGHT", later: true},
		"Timeout": {change: failing(func(ctx context.Context, _ pgx.Tx) error {
			<-ctx.Done()
			return ctx.Err()
		}), send: func(t *testing.T, s *server) Answer {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			return s.send(ctx, Create, lamp(), new(shop.Order), "k")
		}, code: code.Code_DEADLINE_EXCEEDED},
	}
	if !door.Unknown {
		delete(cases, "AnyUnknown") // a client of JSON cannot write it
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := door.open(t, c.opts, c.change)
			answer := c.send(t, s)
			require.Equal(t, c.code.String(), code.Code(answer.Status.GetCode()).String(), "%v", answer.Status)
			if c.reason != "" {
				info, retry := details(t, answer.Status)
				require.Equal(t, c.reason, info.GetReason())
				require.Equal(t, c.later, retry.GetRetryDelay().AsDuration() == 20*time.Millisecond)
				require.NotEmpty(t, answer.Status.GetMessage())
			}
			require.NotContains(t, answer.Status.GetMessage(), "canary")
			require.Equal(t, c.told, len(s.told) == 1)
		})
	}
}

// lostCommit: the answer to COMMIT is lost and the record found. The request that ran is told its
// own response, unmarked; one that cannot look is told to come again.
func (door Door) lostCommit(t *testing.T) {
	var proxy *faultproxy.Proxy
	s := door.open(t, rpc.Options{}, nil, func(config *pgxpool.Config) {
		var err error
		proxy, err = faultproxy.New(config.ConnString())
		require.NoError(t, err)
		t.Cleanup(proxy.Close)
		parsed, err := pgxpool.ParseConfig(proxy.URL())
		require.NoError(t, err)
		config.ConnConfig = parsed.ConnConfig
	})
	_, answer := s.order(t, lamp(), "warm")
	require.Nil(t, answer.Status)
	fault := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
	first, answer := s.order(t, lamp(), "k1")
	<-fault.Applied()
	require.Nil(t, answer.Status)
	require.False(t, answer.Replayed)
	again, answer := s.order(t, lamp(), "k1")
	require.True(t, answer.Replayed)
	require.Equal(t, first.String(), again.String())
	require.Equal(t, 2, s.rows(t))

	proxy.Refuse(true)
	proxy.CutAll()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	down := s.send(ctx, Create, lamp(), new(shop.Order), "k2")
	require.Contains(t, []int32{int32(code.Code_UNAVAILABLE), int32(code.Code_DEADLINE_EXCEEDED)}, down.Status.GetCode())
	proxy.Refuse(false)
}

// twinsAnswer: a COMMIT never reaches the server, and a twin runs in its place. The request that
// lost the COMMIT is told the twin's response, marked, and nothing of its own run.
func (door Door) twinsAnswer(t *testing.T) {
	db := pgtest.New(t)
	proxy, err := faultproxy.New(db.URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	direct := db.Pool(t)
	_, err = direct.Exec(t.Context(), `CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY, item text)`)
	require.NoError(t, err)
	proxied, err := pgxpool.New(t.Context(), proxy.URL())
	require.NoError(t, err)
	t.Cleanup(proxied.Close)
	server := func(pool *pgxpool.Pool, name string) Client {
		d, err := dedup.New(pool, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 10_000}})
		require.NoError(t, err)
		return door.serve(t, d, rpc.Options{Methods: []string{Create}, Scope: func(context.Context) (string, error) { return "acme", nil }}, Service{
			Create: func(ctx context.Context, _ *shop.CreateRequest) (*shop.Order, error) {
				tx, _ := door.Tx(ctx)
				door.Mark(ctx, name)
				_, err := tx.Exec(ctx, `INSERT INTO orders (item) VALUES ($1)`, name)
				return &shop.Order{Id: name}, err
			},
		})
	}
	loses, twin := server(proxied, "loses"), server(direct, "twin")
	require.Nil(t, loses(t.Context(), Create, lamp(), new(shop.Order), "warm").Status)
	proxy.Refuse(true) // another connection, for another attempt, waits until the twin has run
	fault := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit})
	lost := new(shop.Order)
	answered := make(chan Answer, 1)
	go func() { answered <- loses(t.Context(), Create, lamp(), lost, "k1") }()
	<-fault.Applied()
	answer := twin(t.Context(), Create, lamp(), new(shop.Order), "k1")
	require.Nil(t, answer.Status)
	require.Equal(t, []string{"twin"}, answer.Runs)
	proxy.Refuse(false)
	answer = <-answered
	require.Nil(t, answer.Status)
	require.Equal(t, "twin", lost.GetId())
	require.True(t, answer.Replayed)
	require.Empty(t, answer.Runs)
}

// createIn are the arguments of the tool that answers for Create.
type createIn struct {
	Item   string `json:"item"`
	Amount int64  `json:"amount"`
}

type payIn struct {
	Amount int64 `json:"amount"`
}

type createOut struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

// tool: a call of a registry's tool is the same one by HTTP and by RPC.
func (door Door) tool(t *testing.T) {
	runs := 0
	s := door.open(t, rpc.Options{}, nil)
	tools := tool.NewRegistry(s.d, nil)
	require.NoError(t, tools.Add(tool.Tool[createIn, createOut]{
		Name: "create_order", Class: tool.Write,
		Run: func(ctx context.Context, tx pgx.Tx, in createIn) (createOut, error) {
			runs++
			if in.Amount < 0 {
				return createOut{}, dedup.Final(errors.New("no such amount"))
			}
			_, err := tx.Exec(ctx, `INSERT INTO orders (item) VALUES ($1)`, in.Item)
			return createOut{"o1", in.Amount}, err
		},
	}, tool.Tool[payIn, map[string]int]{
		Name: "pay", Class: tool.Write,
		Run: func(context.Context, pgx.Tx, payIn) (map[string]int, error) { return map[string]int{"other": 1}, nil },
	}))
	scope := func(context.Context) (string, error) { return "acme", nil }
	send := door.serve(t, s.d, rpc.Options{Scope: scope, Tools: tools, ToolOf: map[string]string{Create: "create_order", Pay: "pay"}, OnError: func(context.Context, string, error) {}}, Service{})
	web, err := httpdedup.New(s.d, httpdedup.Options{Tools: tools, Scope: func(*http.Request) (string, error) { return "acme", nil }})
	require.NoError(t, err)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"amount": 9007199254740993, "item": "lamp"}`))
	request.Header.Set("Idempotency-Key", `"k1"`)
	recorder := httptest.NewRecorder()
	web.Tool("create_order").ServeHTTP(recorder, request)
	require.Equal(t, http.StatusOK, recorder.Code, recorder.Body)

	order := new(shop.Order)
	answer := send(t.Context(), Create, &shop.CreateRequest{RequestId: "k1", Item: "lamp", Amount: 1<<53 + 1}, order)
	require.Nil(t, answer.Status, "%v", answer.Status)
	require.True(t, answer.Replayed)
	require.Equal(t, int64(1<<53+1), order.GetAmount())
	require.Equal(t, 1, runs)

	for i := range 2 {
		answer = send(t.Context(), Create, &shop.CreateRequest{Item: "lamp", Amount: -1}, order, "k2")
		info, _ := details(t, answer.Status)
		require.Equal(t, "REFUSED", info.GetReason())
		require.Equal(t, "no such amount", answer.Status.GetMessage())
		require.Equal(t, i == 1, answer.Replayed)
	}
	answer = send(t.Context(), Create, &shop.CreateRequest{Item: "lamp", Amount: 2}, order, "k1")
	info, _ := details(t, answer.Status)
	require.Equal(t, "KEY_REUSED", info.GetReason())
	require.Equal(t, "amount", info.GetMetadata()["changed"])
	answer = send(t.Context(), Create, &shop.CreateRequest{Item: "lamp", Coupon: new(string)}, order, "k3")
	info, _ = details(t, answer.Status)
	require.Equal(t, "ARGUMENTS_INVALID", info.GetReason())
	answer = send(t.Context(), Create, &shop.CreateRequest{Item: "lamp"}, order)
	info, _ = details(t, answer.Status)
	require.Equal(t, "KEY_REQUIRED", info.GetReason())

	answer = send(t.Context(), Pay, &shop.PayRequest{Amount: 1}, new(shop.Receipt), "k4")
	info, _ = details(t, answer.Status)
	require.Equal(t, "FAILED", info.GetReason(), "a result of which nothing fits the response")
}
