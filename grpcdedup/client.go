package grpcdedup

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tooldedup/dedup/internal/rpc"
)

// ClientKey is a [grpc.UnaryClientInterceptor] that sends a key with each request, as the metadata
// idempotency-key: the key of the context, which runner.Do and runner.WithKey of package
// tool/runner put there. A context without a key leaves a key that the request has there, or in its
// field request_id. If there is none either, ClientKey makes one. If the request has another key
// than the context, nothing is sent, and the error is a *dedup.InvalidError.
//
// If grpc-go retries the request by the service's retry policy, it sends the same key. An
// interceptor that retries comes after this one, or gives its calls a key with runner.WithKey.
//
// A program that calls again, after the policy has given up, makes another key and so a second
// write. If it may do that, it gives the calls one key, with runner.WithKey or runner.Do. Such a
// context is for one action: two equal requests with it are one. runner.Do takes a status for the
// answer, so its function returns a *runner.StatusError for a code to retry. A key that outlives the
// process is the program's to keep.
func ClientKey(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	sent, _ := metadata.FromOutgoingContext(ctx)
	key, err := rpc.KeyToAdd(ctx, request, sent.Get(rpc.KeyName), "metadata")
	if err != nil {
		return err
	}
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, rpc.KeyName, rpc.WriteKey(key))
	}
	return invoke(ctx, method, request, reply, conn, opts...)
}
