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
// A program that calls again, after the policy has given up, makes another key and so a second
// write. If it may do that, it gives the calls one key with WithKey. A key that outlives the
// process is the program's to keep.
func ClientKey(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	sent, _ := metadata.FromOutgoingContext(ctx)
	if key := rpc.NewKey(request, sent.Get(rpc.KeyName)); key != "" {
		ctx = WithKey(ctx, key)
	}
	return invoke(ctx, method, request, reply, conn, opts...)
}

// WithKey returns a context whose requests are sent with a key, in place of one that ctx has. The
// context is for one action: two equal requests with it are one.
func WithKey(ctx context.Context, key string) context.Context {
	sent, _ := metadata.FromOutgoingContext(ctx) // a copy
	if sent == nil {
		sent = metadata.MD{}
	}
	sent.Set(rpc.KeyName, rpc.WriteKey(key))
	return metadata.NewOutgoingContext(ctx, sent)
}
