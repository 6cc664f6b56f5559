package mcpdedup_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// TestNamesOfKeys: clients that have names of their own for keys are read by those, and
// answered with those.
func TestNamesOfKeys(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	opts := oneUser()
	opts.MetaKey, opts.KeyArgument = "com.example/key", "request_id"
	added := connect(t, d.server(t, opts))
	list, err := added.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Contains(t, asJSON(t, list.Tools), "request_id")
	require.NotContains(t, asJSON(t, list.Tools), mcpdedup.KeyArgument)
	for _, cs := range []*mcp.ClientSession{added, connect(t, guardedServer(t, newDesk(t, nil), opts, policies))} {
		first := call(t, cs, "book", args{"guest": "Ada", "request_id": "k"})
		require.Equal(t, "k", first.Meta["com.example/key"])
		require.NotContains(t, first.Meta, mcpdedup.MetaKey)
		again, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Meta: mcp.Meta{"com.example/key": "k", mcpdedup.MetaKey: "another"}, Name: "book", Arguments: args{"guest": "Ada"}})
		require.NoError(t, err)
		requireSame(t, first, again)

		res := call(t, cs, "book", args{"guest": "Ada"})
		require.Equal(t, "key_required", code(res))
		require.Contains(t, text(res), "the argument request_id")
		res = call(t, cs, "book", args{"guest": "Bob", "request_id": "k"})
		require.Equal(t, "key_reused", code(res))
		require.Contains(t, text(res), "a new request_id")
	}
}

func TestNamesOfKeysThatCannotBe(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	for option, opts := range map[string]*mcpdedup.Options{
		"MetaKey":     {MetaKey: mcpdedup.MetaDuplicate},
		"KeyArgument": {KeyArgument: `a"b`},
	} {
		opts.Scope = mcpdedup.SingleUser("house")
		var refused *dedup.InvalidError
		require.ErrorAs(t, mcpdedup.AddTools(newServer(), d.tools, opts), &refused)
		require.Equal(t, option, refused.Field)
	}
	for _, opts := range []*mcpdedup.Options{{KeyArgument: "k", KeysInMeta: true}} {
		opts.Scope = mcpdedup.SingleUser("house")
		require.Error(t, mcpdedup.AddTools(newServer(), d.tools, opts))
	}
}

// TestKeyIsTheToolsOwnArgument: protocols above MCP have a key among their arguments,
// such as AdCP, whose requests that change something must have an idempotency_key. The
// tool's schema stays as it is, and the handler gets the argument.
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
	guard, err := mcpdedup.Middleware(d.tools.Deduper(),
		map[string]mcpdedup.Policy{"create_media_buy": {Class: tool.Write, KeyArgument: "idempotency_key"}}, oneUser())
	require.NoError(t, err)
	server.AddReceivingMiddleware(guard)
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
