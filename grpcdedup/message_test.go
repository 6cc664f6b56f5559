package grpcdedup_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/grpcdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// TestMessageIsTheRequests: the first run gets the message that the layers around the interceptor
// hold, untouched. A request that is no message of protobuf does not reach its handler.
func TestMessageIsTheRequests(t *testing.T) {
	t.Parallel()
	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	var told []error
	interceptor, err := grpcdedup.New(d, grpcdedup.Options{
		Methods: []string{rpctest.Create},
		Scope:   func(context.Context) (string, error) { return "acme", nil },
		OnError: func(_ context.Context, _ string, err error) { told = append(told, err) },
	})
	require.NoError(t, err)
	runs := 0
	unary := func(request any, handler grpc.UnaryHandler) error {
		_, err := interceptor.Unary(t.Context(), request, &grpc.UnaryServerInfo{FullMethod: rpctest.Create}, func(ctx context.Context, request any) (any, error) {
			runs++
			return handler(ctx, request)
		})
		return err
	}
	line := &shop.Line{Sku: "a"}
	require.NoError(t, unary(&shop.CreateRequest{RequestId: "k", Lines: []*shop.Line{line}}, func(_ context.Context, request any) (any, error) {
		require.Same(t, line, request.(*shop.CreateRequest).GetLines()[0])
		return &shop.Order{}, nil
	}))
	require.Equal(t, 1, runs)
	require.Empty(t, told)

	require.Equal(t, codes.Internal, status.Code(unary("a lamp", nil)))
	require.Equal(t, 1, runs)
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0], dedup.ErrInvalid)
}
