package mcpdedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// existing adds the tools of a server that knows nothing of dedup, but for where
// its transaction comes from.
func existing(server *mcp.Server) {
	type in struct {
		Guest string `json:"guest"`
		Note  string `json:"note,omitempty"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "book", Annotations: &mcp.ToolAnnotations{Title: "Book"}},
		func(ctx context.Context, req *mcp.CallToolRequest, in in) (*mcp.CallToolResult, booking, error) {
			tx, ok := mcpdedup.Tx(ctx)
			if !ok {
				return nil, booking{}, errors.New("no transaction")
			}
			var b booking
			err := tx.QueryRow(ctx, `INSERT INTO bookings (guest) VALUES ($1) RETURNING id, guest`, in.Guest).Scan(&b.ID, &b.Guest)
			switch {
			case err != nil:
				return nil, b, err
			case in.Guest == "Refused":
				return nil, b, errors.New("no room")
			case in.Guest == "Wire":
				return nil, b, &jsonrpc.Error{Code: 418, Message: "teapot"}
			}
			return &mcp.CallToolResult{Meta: mcp.Meta{"number": json.Number("9007199254740993")}}, b, nil
		})
	server.AddTool(&mcp.Tool{Name: "find", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, ok := mcpdedup.Tx(ctx)
			b, _ := json.Marshal(ok)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(b)}, &mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}}}, nil
		})
}

func guardedServer(t *testing.T, d *desk, opts *mcpdedup.Options, tools map[string]mcpdedup.Policy) *mcp.Server {
	t.Helper()
	server := newServer()
	existing(server)
	guard, err := mcpdedup.Middleware(d.tools.Deduper(), tools, opts)
	require.NoError(t, err)
	server.AddReceivingMiddleware(guard)
	return server
}

var policies = map[string]mcpdedup.Policy{
	"book": {Class: tool.Destructive, Retention: dedup.Retention{Result: 30 * 24 * time.Hour}, Ignored: []string{"note"}},
	"find": {Class: tool.ReadOnly},
}

func TestMiddlewareReplays(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := guardedServer(t, d, oneUser(), policies)
	first := call(t, connect(t, server), "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"})
	cs := connect(t, server)
	again := call(t, cs, "book", args{"guest": "Ada", "note": "anew", mcpdedup.KeyArgument: "k"})
	requireSame(t, first, again)
	require.JSONEq(t, `{"id":9007199254740993,"guest":"Ada"}`, text(again))
	require.Contains(t, again.Meta, "number")
	require.Equal(t, "key_reused", code(call(t, cs, "book", args{"guest": "Bob", mcpdedup.KeyArgument: "k"})))
	require.Equal(t, "key_required", code(call(t, cs, "book", args{"guest": "Bob"})))
	require.Equal(t, 1, d.count(t, "bookings"))

	found := call(t, cs, "find", nil)
	require.Equal(t, "false", text(found), "a tool that reads is passed on")
	require.Empty(t, code(found))

	// The numbers of a replay are those that were recorded.
	_, answer := poster(server)(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"guest":"Ada","idempotencyKey":"k"}}}`)
	require.Contains(t, answer, `"number":9007199254740993`)
	require.NotContains(t, answer, "resultType")
}

// TestMiddlewareRollsBack: what is no result is answered as the handler did, and
// leaves nothing.
func TestMiddlewareRollsBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	cs := connect(t, guardedServer(t, d, oneUser(), policies))
	res := call(t, cs, "book", args{"guest": "Refused", mcpdedup.KeyArgument: "k"})
	require.True(t, res.IsError)
	require.Equal(t, "no room", text(res))
	_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "book", Arguments: args{"guest": "Wire", mcpdedup.KeyArgument: "k"}})
	require.ErrorContains(t, err, "teapot")
	require.Zero(t, d.count(t, "bookings"))
	require.Zero(t, d.count(t, "tool_dedup"))
	res = call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"})
	require.False(t, res.IsError, "the key is free: %s", text(res))
}

func TestMiddlewareWithoutKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	cs := connect(t, guardedServer(t, d, oneUser(), map[string]mcpdedup.Policy{"book": {Class: tool.Idempotent}}))
	for range 2 {
		res := call(t, cs, "book", args{"guest": "Ada"})
		require.False(t, res.IsError, text(res))
		require.NotContains(t, res.Meta, door.MetaDuplicate)
	}
	require.True(t, call(t, cs, "book", args{"guest": "Refused"}).IsError)
	require.Equal(t, 2, d.count(t, "bookings"))
	requireSame(t, call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"}), call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"}))
}

// TestMiddlewareRefusesUnknown: what a repeat would do has to be said of every
// tool.
func TestMiddlewareRefusesUnknown(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	var told []mcpdedup.Failure
	cs := connect(t, guardedServer(t, d, collecting(&told, mcpdedup.SingleUser("house")), map[string]mcpdedup.Policy{"find": {Class: tool.ReadOnly}}))
	_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "book", Arguments: args{"guest": "Ada", mcpdedup.KeyArgument: "k"}})
	require.ErrorContains(t, err, "unknown tool")
	list, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, list.Tools, 1)
	require.Len(t, told, 1)
	require.Equal(t, "book", told[0].Tool)
	require.Equal(t, "unclassified", told[0].Code)
	require.Zero(t, d.count(t, "bookings"))

	_, err = mcpdedup.Middleware(d.tools.Deduper(), map[string]mcpdedup.Policy{"b": {}, "a": {Class: tool.External}, "c": {Class: tool.Write}}, oneUser())
	var refused *tool.RegistrationError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Problems, 2)
	require.Equal(t, "a", refused.Problems[0].Tool)
	var unusable *dedup.InvalidError
	for _, opts := range []*mcpdedup.Options{
		{Scope: mcpdedup.TokenUser, Envelope: true},
		{Scope: mcpdedup.TokenUser, Explain: func(context.Context, error) (string, bool) { return "", false }},
	} {
		_, err = mcpdedup.Middleware(d.tools.Deduper(), policies, opts)
		require.ErrorAs(t, err, &unusable)
	}
}

func TestMiddlewareLists(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := guardedServer(t, d, oneUser(), policies)
	for range 2 { // the server's own tools stay as they are
		list, err := connect(t, server).ListTools(t.Context(), nil)
		require.NoError(t, err)
		requireGolden(t, "middleware.golden.json", asJSON(t, list.Tools)+"\n")
	}

	server.AddTool(&mcp.Tool{Name: "find", InputSchema: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"idempotencyKey": {}}}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	_, err := connect(t, server).ListTools(t.Context(), nil)
	require.NoError(t, err, "a tool that reads may have an argument of that name")
	var told []mcpdedup.Failure
	guard, err := mcpdedup.Middleware(d.tools.Deduper(), map[string]mcpdedup.Policy{"book": {Class: tool.Write}, "find": {Class: tool.Write}}, collecting(&told, mcpdedup.TokenUser))
	require.NoError(t, err)
	server.AddReceivingMiddleware(guard)
	_, err = connect(t, server).ListTools(t.Context(), nil)
	require.Error(t, err)
	require.NotEmpty(t, told)
	require.ErrorContains(t, told[0].Err, "rename it")
}

// TestMiddlewareRetriesPassingFaults: a handler is run again after a fault that
// a fresh transaction may not meet, also if it packs it into a result.
func TestMiddlewareRetriesPassingFaults(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := newServer()
	runs := 0
	mcp.AddTool(server, &mcp.Tool{Name: "book"}, func(ctx context.Context, _ *mcp.CallToolRequest, in struct{}) (*mcp.CallToolResult, booking, error) {
		runs++
		tx, _ := mcpdedup.Tx(ctx)
		if err := effect(ctx, tx, "book"); err != nil {
			return nil, booking{}, err
		}
		if runs < 3 {
			_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`)
			return nil, booking{}, err
		}
		return nil, booking{ID: 1}, nil
	})
	guard, err := mcpdedup.Middleware(d.tools.Deduper(), policies, oneUser())
	require.NoError(t, err)
	server.AddReceivingMiddleware(guard)
	res := call(t, connect(t, server), "book", args{mcpdedup.KeyArgument: "k"})
	require.False(t, res.IsError, text(res))
	require.Equal(t, 3, runs)
	require.Equal(t, 1, d.count(t, "effects"))
}
