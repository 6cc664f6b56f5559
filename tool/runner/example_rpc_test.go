package runner_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// A gRPC client sends the key in the metadata of the call, from an interceptor that knows
// of no call in particular, and says of an error what it means. Here invoke stands for the
// stub; with google.golang.org/grpc the interceptor is
//
//	grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
//		if key, ok := runner.KeyFrom(ctx); ok {
//			ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
//		}
//		err := next(ctx, method, req, reply, cc, opts...)
//		return runner.GRPCError(uint32(status.Code(err)), 0, err)
//	})
func ExampleGRPCError() {
	const unavailable = 14
	calls := 0
	invoke := func(metadata map[string]string) (code uint32, err error) {
		fmt.Println("idempotency-key:", metadata["idempotency-key"])
		if calls++; calls == 1 {
			return unavailable, errors.New("rpc error: code = Unavailable")
		}
		return 0, nil
	}
	interceptor := func(ctx context.Context) error {
		metadata := map[string]string{}
		if key, ok := runner.KeyFrom(ctx); ok {
			metadata["idempotency-key"] = key
		}
		code, err := invoke(metadata)
		return runner.GRPCError(code, 0, err)
	}

	call := runner.Call[string]{Tool: "book", Class: tool.Write, Key: "order 17", Policy: impatient}
	result, err := runner.Do(context.Background(), nil, call, func(ctx context.Context, _ runner.Try) (string, error) {
		return "booked", interceptor(ctx)
	})
	fmt.Println(result.Value, "after", result.Tries, "tries:", err)

	// Output:
	// idempotency-key: order 17
	// idempotency-key: order 17
	// booked after 2 tries: <nil>
}

// An MCP client sends the key in _meta, and asks the result whether it is the answer. Here
// callTool stands for the client's.
func ExampleResultError() {
	type result struct {
		IsError bool
		Meta    map[string]any
		Text    string
	}
	calls := 0
	callTool := func(meta map[string]any) (result, error) {
		fmt.Println("_meta:", meta[runner.MetaKey])
		if calls++; calls == 1 {
			return result{IsError: true, Meta: map[string]any{"io.github.tooldedup/error": "unavailable"}}, nil
		}
		return result{Text: "booked"}, nil
	}

	call := runner.Call[string]{Tool: "book", Class: tool.Write, Key: "order 17", Policy: impatient}
	answer, err := runner.Do(context.Background(), nil, call, func(ctx context.Context, _ runner.Try) (string, error) {
		meta, err := runner.PutMeta(ctx, nil)
		if err != nil {
			return "", err
		}
		res, err := callTool(meta)
		if err != nil {
			return "", err
		}
		return res.Text, runner.ResultError(res.IsError, res.Meta)
	})
	fmt.Println(answer.Value, "after", answer.Tries, "tries:", err)

	// Output:
	// _meta: order 17
	// _meta: order 17
	// booked after 2 tries: <nil>
}
