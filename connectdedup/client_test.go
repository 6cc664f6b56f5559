package connectdedup_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/connectdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// TestClientKey sends a request whose answers are lost. An interceptor before ClientKey sends it
// again, with the key that was made once.
func TestClientKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	interceptor, err := connectdedup.New(d, connectdedup.Options{
		Methods: []string{rpctest.Create},
		Scope:   func(context.Context) (string, error) { return "acme", nil },
	})
	require.NoError(t, err)
	var runs, tries atomic.Int32
	srv := serve(t, rpctest.Service{Create: func(_ context.Context, in *shop.CreateRequest) (*shop.Order, error) {
		runs.Add(1)
		return &shop.Order{Id: in.GetItem()}, nil
	}}, interceptor)
	again := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (response connect.AnyResponse, err error) {
			for range 3 {
				if response, err = next(ctx, request); err == nil && tries.Add(1)%3 != 0 {
					err = connect.NewError(connect.CodeUnavailable, errors.New("the connection is lost"))
				}
			}
			return response, err
		}
	})
	orders := connect.NewClient[shop.CreateRequest, shop.Order](srv.Client, srv.URL+rpctest.Create, connect.WithInterceptors(again, connectdedup.ClientKey()))
	order := func(in *connect.Request[shop.CreateRequest]) {
		t.Helper()
		response, err := orders.CallUnary(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, in.Msg.GetItem(), response.Msg.GetId())
	}
	order(connect.NewRequest(&shop.CreateRequest{Item: "lamp"}))
	order(connect.NewRequest(&shop.CreateRequest{Item: "lamp"}))
	require.EqualValues(t, 2, runs.Load(), "each request is a call")
	order(connect.NewRequest(&shop.CreateRequest{Item: "desk", RequestId: "of the field"}))
	mine := connect.NewRequest(&shop.CreateRequest{Item: "bed"})
	mine.Header().Set("Idempotency-Key", "mine")
	order(mine)
	require.EqualValues(t, 4, runs.Load())
	for key, want := range map[string]dedup.State{"of the field": dedup.StateDone, "mine": dedup.StateDone, "other": dedup.StateNotFound} {
		status, err := d.Lookup(t.Context(), "acme", "shop.v1.Orders/Create", key)
		require.NoError(t, err)
		require.Equal(t, want, status.State, key)
	}
}
