package grpcdedup

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tooldedup/dedup/internal/rpc"
)

// ClientKey is a [grpc.UnaryClientInterceptor] that makes a key for each request and sends it as
// the metadata idempotency-key, unless the request has one there or in its field request_id. If
// grpc-go retries the request by the service's retry policy, it sends the same key. An interceptor
// that retries comes after this one, or gives its calls a key with [WithKey].
//
// A key that outlives the process is the caller's to keep: after a restart a request made anew is
// another one.
func ClientKey(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	sent, _ := metadata.FromOutgoingContext(ctx)
	if key := rpc.NewKey(request, sent.Get(rpc.KeyName)); key != "" {
		ctx = WithKey(ctx, key)
	}
	return invoke(ctx, method, request, reply, conn, opts...)
}

// WithKey returns a context whose requests are sent with a key.
func WithKey(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, rpc.KeyName, rpc.WriteKey(key))
}
