package connectdedup

import (
	"context"

	"connectrpc.com/connect"

	"github.com/tooldedup/dedup/internal/rpc"
)

// ClientKey returns an interceptor for clients, which sends a key with each request, as the header
// Idempotency-Key: the key of the context, which runner.Do and runner.WithKey of package
// tool/runner put there. A context without a key leaves a key that the request has there, or in its
// field request_id. If there is none either, the interceptor makes one. If the request has another
// key than the context, nothing is sent, and the error is a *dedup.InvalidError.
//
// The key stays with the request, so that an interceptor before this one which sends the request
// again sends the same key. So a [connect.Request] is one call: a program that sends it again,
// after it succeeded too, gets the first answer. Make a new Request for a new call. Set its header
// to send a key of one's own; in code generated with the option simple, set it in the RequestHeader
// of [connect.NewClientContext].
//
// A program that makes its request anew, after its retries have given up, makes another key and so
// a second write. If it may do that, it gives the calls one key, with runner.WithKey or runner.Do.
// Such a context is for one action: two equal requests with it are one. Do takes a server's code
// for the answer, so its function returns a *runner.StatusError for a code to retry. A key that
// outlives the process is the program's to keep.
func ClientKey() connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			if !request.Spec().IsClient {
				return next(ctx, request)
			}
			key, err := rpc.KeyToAdd(ctx, request.Any(), request.Header().Values(rpc.KeyName), "header")
			if err != nil {
				return nil, err
			}
			if key != "" {
				request.Header().Set(rpc.KeyName, rpc.WriteKey(key))
			}
			return next(ctx, request)
		}
	})
}
