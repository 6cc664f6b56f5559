package mcpdedup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// TestCancelledByTheClient: a call that its client cancels is not a fault of the server, for every
// kind of tool and at every step. A tool that cancels itself is one.
func TestCancelledByTheClient(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	running := make(chan struct{})
	wait := func(ctx context.Context) error {
		running <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	opts := collecting(&told, func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
		if req.Params.Name == "scope" {
			return "", wait(ctx)
		}
		return "house", nil
	})
	server := newServer()
	for name, class := range map[string]tool.Class{"write": tool.Write, "read": tool.ReadOnly, "set": tool.Idempotent, "scope": tool.Write} {
		require.NoError(t, addTool(server, d.tools, opts, tool.Tool[findIn, booking]{Name: name, Class: class,
			Run: func(ctx context.Context, tx pgx.Tx, in findIn) (booking, error) {
				if in.Guest == "itself" {
					return booking{}, errors.Join(context.Canceled)
				}
				return booking{}, wait(ctx)
			}}))
	}
	answered := make(chan string) // the SDK continues to write to the result
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, req)
			if res, ok := res.(*mcp.CallToolResult); ok && ctx.Err() != nil {
				answered <- code(res)
			}
			return res, err
		}
	})
	cs := connect(t, server)
	for _, name := range []string{"write", "read", "set", "scope"} {
		ctx, cancel := context.WithCancel(t.Context())
		arguments := args{mcpdedup.KeyArgument: "k"}
		if name == "read" {
			arguments = args{}
		}
		failed := make(chan error, 1)
		go func() {
			res, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
			if err == nil {
				err = errors.New(text(res))
			}
			failed <- err
		}()
		select {
		case <-running:
		case err := <-failed:
			require.NoError(t, err, name)
		}
		cancel()
		require.Equal(t, "timeout", <-answered, name)
		require.ErrorIs(t, <-failed, context.Canceled)
		require.Empty(t, told, name)
	}
	require.Zero(t, d.count(t, "tool_dedup"))

	require.Equal(t, "timeout", code(call(t, cs, "write", args{"guest": "itself", mcpdedup.KeyArgument: "k"})))
	require.Len(t, told, 1)
}
