package connectdedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/connectdedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

func TestMain(m *testing.M) { rpctest.Main(m, doors["Connect"]) }

// TestDoor holds what both doors promise, in each protocol that Connect serves.
func TestDoor(t *testing.T) {
	t.Parallel()
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rpctest.Run(t, door)
		})
	}
}

// TestLongKilled kills a server every 60 requests. The control is a method without the interceptor.
func TestLongKilled(t *testing.T) {
	t.Parallel()
	door := doors["Connect"]
	doubled, kills := door.Killed(t, rpctest.Create, 500, 60)
	require.Zero(t, doubled)
	require.GreaterOrEqual(t, kills, 8)
	control, _ := door.Killed(t, rpctest.Touch, 200, 20)
	require.Positive(t, control)
	t.Logf("500 calls, %d kills: 0 doubled; control: %d of 200", kills, control)
}

var doors = map[string]rpctest.Door{
	"Connect": newDoor(true, connect.WithSendGzip()),
	"JSON":    newDoor(false, connect.WithProtoJSON()),
	"GRPC":    newDoor(true, connect.WithGRPC()),
	"GRPCWeb": newDoor(true, connect.WithGRPCWeb()),
}

func newDoor(unknown bool, protocol connect.ClientOption) rpctest.Door {
	return rpctest.Door{
		New: func(d *dedup.Deduper, opts rpc.Options) error {
			_, err := connectdedup.New(d, connectdedup.Options(opts))
			return err
		},
		Server: func(d *dedup.Deduper, opts rpc.Options, s rpctest.Service) (rpctest.Server, error) {
			interceptor, err := connectdedup.New(d, connectdedup.Options(opts))
			if err != nil {
				return nil, err
			}
			return newServer(s, interceptor), nil
		},
		Dial: func(t testing.TB, addr string) rpctest.Client {
			return client(caller{httpClient(t), "http://" + addr}, protocol)
		},
		DialKeyed: func(t testing.TB, addr string) rpctest.Client {
			return client(caller{httpClient(t), "http://" + addr}, protocol, connect.WithInterceptors(connectdedup.ClientKey()))
		},
		Tx:    connectdedup.Tx,
		Error: func(s *spb.Status) error { return errorOf(s) },
		Mark: func(ctx context.Context, run string) {
			if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
				info.ResponseHeader().Add("run", run)
			}
		},
		KeyPlace: "header",
		Unknown:  unknown,
	}
}

func errorOf(s *spb.Status) error {
	err := connect.NewError(connect.Code(s.GetCode()), errors.New(s.GetMessage()))
	for _, packed := range s.GetDetails() {
		if detail, problem := connect.NewErrorDetail(packed); problem == nil {
			err.AddDetail(detail)
		}
	}
	return err
}

func newServer(s rpctest.Service, interceptor connect.Interceptor) *http.Server {
	recovers := connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error {
		return connect.NewError(connect.CodeInternal, errors.New("a panic"))
	})
	options := connect.WithHandlerOptions(recovers, connect.WithInterceptors(interceptor))
	mux := http.NewServeMux()
	mux.Handle(rpctest.Create, connect.NewUnaryHandler(rpctest.Create, unary(s.Create), options))
	mux.Handle(rpctest.Pay, connect.NewUnaryHandler(rpctest.Pay, unary(s.Pay), options))
	mux.Handle(rpctest.Get, connect.NewUnaryHandler(rpctest.Get, unary(s.Get), options))
	mux.Handle(rpctest.Touch, connect.NewUnaryHandler(rpctest.Touch, unary(s.Touch), options))
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}

// httpClient speaks HTTP/2, which gRPC needs.
func httpClient(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// caller is a client and where its server is.
type caller struct {
	*http.Client
	URL string
}

// serve starts a server until the test ends.
func serve(t testing.TB, s rpctest.Service, interceptor connect.Interceptor) caller {
	t.Helper()
	server := newServer(s, interceptor)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return caller{httpClient(t), "http://" + listener.Addr().String()}
}

func unary[In, Out any](method func(ctx context.Context, in *In) (*Out, error)) func(context.Context, *connect.Request[In]) (*connect.Response[Out], error) {
	return func(ctx context.Context, in *connect.Request[In]) (*connect.Response[Out], error) {
		out, err := method(ctx, in.Msg)
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(out), nil
	}
}

func client(srv caller, opts ...connect.ClientOption) rpctest.Client {
	return func(ctx context.Context, method string, in, out proto.Message, keys ...string) rpctest.Answer {
		switch in := in.(type) {
		case *shop.CreateRequest:
			return send(ctx, srv, method, in, out.(*shop.Order), keys, opts)
		case *shop.PayRequest:
			if order, ok := out.(*shop.Order); ok {
				return send(ctx, srv, method, in, order, keys, opts)
			}
			return send(ctx, srv, method, in, out.(*shop.Receipt), keys, opts)
		}
		panic("no such request")
	}
}

func send[In, Out any](ctx context.Context, srv caller, method string, in *In, out *Out, keys []string, opts []connect.ClientOption) rpctest.Answer {
	request := connect.NewRequest(in)
	for _, key := range keys {
		request.Header().Add(rpc.KeyName, key)
	}
	response, err := connect.NewClient[In, Out](srv.Client, srv.URL+method, opts...).CallUnary(ctx, request)
	if err != nil {
		var failed *connect.Error
		if !errors.As(err, &failed) {
			failed = connect.NewError(connect.CodeUnknown, err)
		}
		s := &spb.Status{Code: int32(failed.Code()), Message: failed.Message()}
		for _, detail := range failed.Details() {
			s.Details = append(s.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type(), Value: detail.Bytes()})
		}
		return rpctest.Answer{
			Status: s, Err: err, Replayed: failed.Meta().Get(rpc.ReplayedName) == "true",
			Runs: failed.Meta().Values("run"), Wait: failed.Meta().Get("Retry-After"),
		}
	}
	proto.Merge(any(out).(proto.Message), any(response.Msg).(proto.Message))
	return rpctest.Answer{Replayed: response.Header().Get(rpc.ReplayedName) == "true", Runs: response.Header().Values("run")}
}

// TestHandlersHeaders: what a handler sets on its response or its error goes with the answer of its
// own run, even if the reply to COMMIT was lost, and not with a later one.
func TestHandlersHeaders(t *testing.T) {
	t.Parallel()
	proxy, err := faultproxy.New(pgtest.New(t).URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	pool, err := pgxpool.New(t.Context(), proxy.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	interceptor, err := connectdedup.New(d, connectdedup.Options{
		Methods: []string{rpctest.Create},
		Scope:   func(context.Context) (string, error) { return "acme", nil },
	})
	require.NoError(t, err)
	server := httptest.NewServer(connect.NewUnaryHandler(rpctest.Create, func(_ context.Context, in *connect.Request[shop.CreateRequest]) (*connect.Response[shop.Order], error) {
		if in.Msg.GetItem() == "refused" {
			declined := connect.NewError(connect.CodeResourceExhausted, errors.New("no"))
			declined.Meta().Set("Run", "1")
			return nil, dedup.Final(declined)
		}
		response := connect.NewResponse(&shop.Order{Id: in.Msg.GetItem()})
		response.Header().Set("Run", "1")
		return response, nil
	}, connect.WithInterceptors(interceptor)))
	t.Cleanup(server.Close)
	send := func(item string) rpctest.Answer {
		in := &shop.CreateRequest{RequestId: item, Item: item}
		return client(caller{server.Client(), server.URL})(t.Context(), rpctest.Create, in, new(shop.Order))
	}
	require.Equal(t, rpctest.Answer{Runs: []string{"1"}}, send("lamp"))
	for _, item := range []string{"lost", "refused"} {
		if item == "lost" {
			fault := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
			defer func() { <-fault.Applied() }()
		}
		answer := send(item)
		require.Equal(t, []string{"1"}, answer.Runs, item)
		require.False(t, answer.Replayed, item)
		answer = send(item)
		require.Empty(t, answer.Runs, item)
		require.True(t, answer.Replayed, item)
	}
}

// TestRequestHeaders: a handler that runs again gets the headers of the request as they came, not
// as the run that was rolled back left them.
func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	interceptor, err := connectdedup.New(d, connectdedup.Options{
		Methods: []string{rpctest.Create},
		Scope:   func(context.Context) (string, error) { return "acme", nil },
	})
	require.NoError(t, err)
	var seen []string
	server := httptest.NewServer(connect.NewUnaryHandler(rpctest.Create, func(ctx context.Context, in *connect.Request[shop.CreateRequest]) (*connect.Response[shop.Order], error) {
		seen = append(seen, in.Header().Get("X-Order"))
		in.Header().Del("X-Order")
		if tx, _ := connectdedup.Tx(ctx); len(seen) == 1 {
			_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`)
			return nil, err
		}
		return connect.NewResponse(&shop.Order{}), nil
	}, connect.WithInterceptors(interceptor)))
	t.Cleanup(server.Close)
	request := connect.NewRequest(&shop.CreateRequest{RequestId: "k"})
	request.Header().Set("X-Order", "o1")
	_, err = connect.NewClient[shop.CreateRequest, shop.Order](server.Client(), server.URL).CallUnary(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, []string{"o1", "o1"}, seen)
}

// TestCurl sends what a browser or curl sends: JSON by POST over HTTP/1.1.
func TestCurl(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	interceptor, err := connectdedup.New(d, connectdedup.Options{
		Methods: []string{rpctest.Create},
		Scope:   func(context.Context) (string, error) { return "acme", nil },
	})
	require.NoError(t, err)
	runs := 0
	srv := serve(t, rpctest.Service{Create: func(_ context.Context, in *shop.CreateRequest) (*shop.Order, error) {
		runs++
		return &shop.Order{Id: in.GetItem()}, nil
	}}, interceptor)
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	post := func(body, key string) (*http.Response, map[string]any) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+rpctest.Create, bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", key)
		response, err := transport.RoundTrip(request)
		require.NoError(t, err)
		defer response.Body.Close()
		require.Equal(t, 1, response.ProtoMajor)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		var parsed map[string]any
		require.NoError(t, json.Unmarshal(text, &parsed), string(text))
		return response, parsed
	}
	for i := range 2 {
		response, body := post(`{"item": "lamp"}`, "k1")
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, "lamp", body["id"])
		require.Equal(t, i == 1, response.Header.Get("Idempotency-Replayed") == "true")
	}
	response, body := post(`{"item": "desk"}`, "k1")
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.Equal(t, "failed_precondition", body["code"])
	require.Equal(t, 1, runs)
}
