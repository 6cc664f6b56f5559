package mcpdedup_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// TestKeyIsTheToolsOwnArgument: a protocol above MCP, such as AdCP, requires an idempotency_key
// among the arguments of a request that changes something. The tool's schema stays unchanged, and
// the handler gets the argument.
func TestKeyIsTheToolsOwnArgument(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	const schema = `{"type":"object","properties":{"idempotency_key":{"type":"string","pattern":"^[A-Za-z0-9_.:-]{16,255}$"},"budget":{"type":"integer"}},"required":["idempotency_key"],"additionalProperties":false}`
	type in struct {
		Key    string `json:"idempotency_key"`
		Budget int    `json:"budget"`
	}
	server := newServer()
	mcp.AddTool(server, &mcp.Tool{Name: "create_media_buy", InputSchema: json.RawMessage(schema)},
		func(ctx context.Context, _ *mcp.CallToolRequest, in in) (*mcp.CallToolResult, mediaBuy, error) {
			tx, _ := mcpdedup.Tx(ctx)
			return nil, mediaBuy(in), effect(ctx, tx, in.Key)
		})
	wrap(t, server, d.tools, oneUser(), map[string]mcpdedup.Policy{"create_media_buy": {Class: tool.Write, KeyArgument: "idempotency_key"}})
	cs := connect(t, server)
	list, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.JSONEq(t, schema, asJSON(t, list.Tools[0].InputSchema))

	const key = "0123456789abcdef"
	first := call(t, cs, "create_media_buy", args{"idempotency_key": key, "budget": 5})
	require.JSONEq(t, `{"key":"`+key+`","budget":5}`, text(first))
	requireSame(t, first, call(t, cs, "create_media_buy", args{"budget": 5, "idempotency_key": key}))
	require.Equal(t, "key_reused", code(call(t, cs, "create_media_buy", args{"idempotency_key": key, "budget": 6})))
	require.Equal(t, "key_required", code(call(t, cs, "create_media_buy", args{"budget": 6})))
	require.True(t, call(t, cs, "create_media_buy", args{"idempotency_key": "short", "budget": 6}).IsError, "the tool's own schema goes on to hold")
	require.Equal(t, 1, d.count(t, "effects"))
	require.Equal(t, 1, d.count(t, "tool_dedup"))
}

type mediaBuy struct {
	Key    string `json:"key"`
	Budget int    `json:"budget"`
}
