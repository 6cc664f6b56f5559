package grpcdedup_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/grpcdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// TestGuidePolicy: grpc-go accepts the retry policy of the guide.
func TestGuidePolicy(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guide.md")
	require.NoError(t, err)
	_, config, ok := strings.Cut(string(guide), "const retries = `")
	require.True(t, ok)
	config, _, _ = strings.Cut(config, "`")
	conn, err := grpc.NewClient("passthrough:nobody", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(config))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// TestClientKey sends a request whose answers are lost. grpc-go's policy sends it again, with the
// same key.
func TestClientKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE orders (item text)`)
	require.NoError(t, err)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	interceptor, err := grpcdedup.New(d, grpcdedup.Options{
		Methods: []string{rpctest.Create},
		Scope:   func(context.Context) (string, error) { return "acme", nil },
	})
	require.NoError(t, err)
	var tries atomic.Int32
	loses := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		answer, err := interceptor.Unary(ctx, request, info, handler)
		if err == nil && tries.Add(1)%2 != 0 {
			return nil, status.Error(codes.Unavailable, "the connection is lost")
		}
		return answer, err
	}
	create := func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
		tx, _ := grpcdedup.Tx(ctx)
		_, err := tx.Exec(ctx, `INSERT INTO orders VALUES ($1)`, in.GetItem())
		return &shop.Order{Id: in.GetItem()}, err
	}
	conn := serve(t, rpctest.Service{Create: create}, loses, grpc.WithUnaryInterceptor(grpcdedup.ClientKey))
	order := func(ctx context.Context, in *shop.CreateRequest) {
		t.Helper()
		out := new(shop.Order)
		require.NoError(t, conn.Invoke(ctx, rpctest.Create, in, out))
		require.Equal(t, in.GetItem(), out.GetId())
	}
	keys := func() (n int, last string) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*), (array_agg(key ORDER BY created_at DESC))[1] FROM tool_dedup`).Scan(&n, &last))
		var rows int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM orders`).Scan(&rows))
		require.Equal(t, n, rows)
		return n, last
	}
	order(t.Context(), &shop.CreateRequest{Item: "lamp"})
	order(t.Context(), &shop.CreateRequest{Item: "lamp"})
	n, _ := keys()
	require.Equal(t, 2, n, "each request is a call")
	order(t.Context(), &shop.CreateRequest{Item: "desk", RequestId: "of the field"})
	n, last := keys()
	require.Equal(t, 3, n)
	require.Equal(t, "of the field", last)
	mine := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "of-the-metadata")
	order(mine, &shop.CreateRequest{Item: "bed"})
	n, last = keys()
	require.Equal(t, 4, n)
	require.Equal(t, "of-the-metadata", last)
}
