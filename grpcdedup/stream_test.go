package grpcdedup_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/grpcdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// TestHeaderIsSentOnce: behind the interceptor SetHeader and SendHeader fail after SendHeader, as
// without it.
func TestHeaderIsSentOnce(t *testing.T) {
	t.Parallel()
	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	interceptor, err := grpcdedup.New(d, grpcdedup.Options{
		Methods: []string{rpctest.Create},
		Scope:   func(context.Context) (string, error) { return "acme", nil },
	})
	require.NoError(t, err)
	var got []codes.Code
	sends := func(ctx context.Context) {
		got = nil
		for _, err := range []error{
			grpc.SetHeader(ctx, metadata.Pairs("run", "1")), grpc.SendHeader(ctx, metadata.Pairs("run", "2")),
			grpc.SendHeader(ctx, metadata.Pairs("run", "3")), grpc.SetHeader(ctx, metadata.Pairs("run", "4")),
			grpc.SetHeader(ctx, nil), grpc.SetTrailer(ctx, metadata.Pairs("trailer", "5")),
		} {
			got = append(got, status.Code(err))
		}
	}
	conn := serve(t, rpctest.Service{
		Create: func(ctx context.Context, _ *shop.CreateRequest) (*shop.Order, error) {
			sends(ctx)
			return &shop.Order{}, nil
		},
		Touch: func(ctx context.Context, _ *shop.PayRequest) (*shop.Receipt, error) {
			sends(ctx)
			return &shop.Receipt{}, nil
		},
	}, interceptor.Unary)
	for method, message := range map[string][2]any{
		rpctest.Create: {&shop.CreateRequest{RequestId: "k"}, &shop.Order{}},
		rpctest.Touch:  {&shop.PayRequest{}, &shop.Receipt{}}, // is not intercepted
	} {
		var header metadata.MD
		require.NoError(t, conn.Invoke(t.Context(), method, message[0], message[1], grpc.Header(&header)))
		require.Equal(t, []codes.Code{codes.OK, codes.OK, codes.Internal, codes.Internal, codes.OK, codes.OK}, got, method)
		require.Equal(t, []string{"1", "2"}, header["run"], method)
	}
}
