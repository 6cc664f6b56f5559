package mcpdedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// A call whose COMMIT's answer is lost finds its own record. It is no duplicate:
// what it did was done now.
func TestRecoveredIsNoDuplicate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve func(t *testing.T, server *mcp.Server, tools *tool.Registry)
		args  func(key string) args
		done  int
	}{
		"AddTools": {serve: func(t *testing.T, server *mcp.Server, tools *tool.Registry) {
			opts := oneUser()
			opts.Envelope = true
			require.NoError(t, mcpdedup.AddTools(server, tools, opts))
		}, args: func(key string) args { return args{"ref": key} }, done: 1},
		"Middleware": {serve: behindMiddleware(func(ctx context.Context, key string) (*mcp.CallToolResult, error) {
			tx, _ := mcpdedup.Tx(ctx)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: key}}}, effect(ctx, tx, key)
		}), args: keyed, done: 1},
		"Refusal": {serve: behindMiddleware(func(context.Context, string) (*mcp.CallToolResult, error) {
			return nil, dedup.Final(errors.New("no room"))
		}), args: keyed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			tools, proxy := d.proxied(t)
			server := newServer()
			c.serve(t, server, tools)
			cs := connect(t, server)

			call(t, cs, "cancel", c.args("warm"))
			before := d.count(t, "effects")
			lost := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
			first := call(t, cs, "cancel", c.args("k"))
			require.Equal(t, 1, lost.Count())
			require.Equal(t, c.done, d.count(t, "effects")-before)
			require.Equal(t, false, first.Meta[door.MetaDuplicate])
			again := call(t, cs, "cancel", c.args("k"))
			require.Equal(t, true, again.Meta[door.MetaDuplicate])
			if name == "AddTools" {
				require.Contains(t, text(first), `"duplicate":false`)
				require.Contains(t, text(again), `"duplicate":true`)
			}
		})
	}
}

func keyed(key string) args { return args{mcpdedup.KeyArgument: key} }

// behindMiddleware serves the handler as the tool cancel.
func behindMiddleware(handle func(ctx context.Context, key string) (*mcp.CallToolResult, error)) func(*testing.T, *mcp.Server, *tool.Registry) {
	return func(t *testing.T, server *mcp.Server, tools *tool.Registry) {
		server.AddTool(&mcp.Tool{Name: "cancel", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return handle(ctx, dedup.NewKey())
			})
		guard, err := mcpdedup.Middleware(tools.Deduper(), map[string]mcpdedup.Policy{"cancel": {Class: tool.Write}}, oneUser())
		require.NoError(t, err)
		server.AddReceivingMiddleware(guard)
	}
}

// A call without a key has no record that would miss its transaction.
func TestHandlerEndsItsTransactionWithoutKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	tools, err := deskTools(d.db.Pool(t), nil)
	require.NoError(t, err)
	var told []error
	opts := oneUser()
	opts.OnError = func(_ context.Context, f mcpdedup.Failure) { told = append(told, f.Err) }
	server := newServer()
	server.AddTool(&mcp.Tool{Name: "set", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			tx, _ := mcpdedup.Tx(ctx)
			_, err := tx.Exec(ctx, "COMMIT")
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no room"}}}, err
		})
	before, err := mcpdedup.Middleware(tools.Deduper(), map[string]mcpdedup.Policy{"set": {Class: tool.Idempotent}}, opts)
	require.NoError(t, err)
	server.AddReceivingMiddleware(before)
	res := call(t, connect(t, server), "set", args{})
	require.True(t, res.IsError)
	require.NotContains(t, text(res), "no room")
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0], dedup.ErrInvalid)
}
