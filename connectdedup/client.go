package connectdedup

import (
	"context"

	"connectrpc.com/connect"

	"github.com/tooldedup/dedup/internal/rpc"
)

// ClientKey returns an interceptor for clients. It makes a key for each request and sends it as the
// header Idempotency-Key, unless the request has one there or in its field request_id. The key
// stays with the request, so that an interceptor before this one which sends the request again
// sends the same key. So a [connect.Request] is one call: a program that sends it again, after it
// succeeded too, gets the first answer. Make a new Request for a new call. Set its header to send a
// key of one's own; in code generated with the option simple, set it in the RequestHeader of
// [connect.NewClientContext].
//
// A program that makes its request anew, after its retries have given up, makes another key and so
// a second write. If it may do that, it sends a key of its own, and keeps one that outlives the
// process.
func ClientKey() connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			if key := rpc.NewKey(request.Any(), request.Header().Values(rpc.KeyName)); key != "" && request.Spec().IsClient {
				request.Header().Set(rpc.KeyName, rpc.WriteKey(key))
			}
			return next(ctx, request)
		}
	})
}
