package grpcdedup_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/grpcdedup"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest"
)

func TestMain(m *testing.M) { rpctest.Main(m, door) }

// TestDoor holds what both doors promise.
func TestDoor(t *testing.T) {
	t.Parallel()
	rpctest.Run(t, door)
}

// TestLongKilled kills a server every 60 requests. The control is a method without the interceptor.
func TestLongKilled(t *testing.T) {
	t.Parallel()
	doubled, kills := door.Killed(t, rpctest.Create, 500, 60)
	require.Zero(t, doubled)
	require.GreaterOrEqual(t, kills, 8)
	control, _ := door.Killed(t, rpctest.Touch, 200, 20)
	require.Positive(t, control)
	t.Logf("500 calls, %d kills: 0 doubled; control: %d of 200", kills, control)
}

var door = rpctest.Door{
	New: func(d *dedup.Deduper, opts rpc.Options) error {
		_, err := grpcdedup.New(d, grpcdedup.Options(opts))
		return err
	},
	Server: func(d *dedup.Deduper, opts rpc.Options, s rpctest.Service) (rpctest.Server, error) {
		interceptor, err := grpcdedup.New(d, grpcdedup.Options(opts))
		if err != nil {
			return nil, err
		}
		return newServer(s, interceptor.Unary), nil
	},
	Dial: func(t testing.TB, addr string) rpctest.Client { return client(dial(t, addr)) },
	DialKeyed: func(t testing.TB, addr string) rpctest.Client {
		return client(dial(t, addr, grpc.WithUnaryInterceptor(grpcdedup.ClientKey)))
	},
	Tx: grpcdedup.Tx,
	Error: func(s *spb.Status) error {
		if codes.Code(s.GetCode()) == codes.OK {
			return okError{s} // a status has no error then
		}
		return status.FromProto(s).Err()
	},
	Mark:     func(ctx context.Context, run string) { _ = grpc.SetHeader(ctx, metadata.Pairs("run", run)) },
	KeyPlace: "metadata",
	Unknown:  true,
}

// okError is an error with the status OK.
type okError struct{ status *spb.Status }

func (e okError) Error() string              { return e.status.GetMessage() }
func (e okError) GRPCStatus() *status.Status { return status.FromProto(e.status) }

// server is a *grpc.Server with the methods of *http.Server.
type server struct{ *grpc.Server }

func (s server) Close() error {
	s.Stop()
	return nil
}

func newServer(s rpctest.Service, interceptor grpc.UnaryServerInterceptor) server {
	recovers := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if recover() != nil {
				err = status.Error(codes.Internal, "a panic")
			}
		}()
		return handler(ctx, request)
	}
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(recovers, interceptor))
	srv.RegisterService(&grpc.ServiceDesc{ServiceName: "shop.v1.Orders", Methods: []grpc.MethodDesc{
		unary("Create", s.Create), unary("Pay", s.Pay), unary("Get", s.Get), unary("Touch", s.Touch),
	}}, nil)
	return server{srv}
}

// unary is a method as generated code describes it.
func unary[In, Out any](name string, method func(ctx context.Context, in *In) (*Out, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(In)
		if err := decode(in); err != nil {
			return nil, err
		}
		info := &grpc.UnaryServerInfo{FullMethod: "/shop.v1.Orders/" + name}
		return interceptor(ctx, in, info, func(ctx context.Context, request any) (any, error) { return method(ctx, request.(*In)) })
	}}
}

// policy is a client's retry policy, as its service config has it.
const policy = `{"methodConfig": [{"name": [{"service": "shop.v1.Orders"}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"]}}]}`

func dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(policy))
	conn, err := grpc.NewClient("passthrough:"+addr, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// serve starts a server until the test ends, and returns a connection to it.
func serve(t testing.TB, s rpctest.Service, interceptor grpc.UnaryServerInterceptor, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	srv := newServer(s, interceptor)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		require.NoError(t, <-served)
	})
	return dial(t, listener.Addr().String(), opts...)
}

func client(conn *grpc.ClientConn) rpctest.Client {
	return func(ctx context.Context, method string, in, out proto.Message, keys ...string) rpctest.Answer {
		for _, key := range keys {
			ctx = metadata.AppendToOutgoingContext(ctx, rpc.KeyName, key)
		}
		var header, trailer metadata.MD
		err := conn.Invoke(ctx, method, in, out, grpc.Header(&header), grpc.Trailer(&trailer))
		answer := rpctest.Answer{
			Replayed: len(header.Get(rpc.ReplayedName)) == 1, Runs: header.Get("run"),
			Wait: strings.Join(trailer.Get("grpc-retry-pushback-ms"), ", "),
		}
		if err != nil {
			answer.Status, answer.Err = status.Convert(err).Proto(), err
		}
		return answer
	}
}
