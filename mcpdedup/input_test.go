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

// TestMiddlewareInputRequests: a handler that writes once the input is there writes once, whatever
// the client's version of MCP. One that writes before it asks writes twice for an older client: its
// two runs are in one transaction, which a middleware cannot see. The documentation says so.
func TestMiddlewareInputRequests(t *testing.T) {
	t.Parallel()
	for version, early := range map[string]int{withoutSession: 1, withSession: 2} {
		for name, want := range map[string]int{"late": 1, "early": early} {
			t.Run(version+"/"+name, func(t *testing.T) {
				t.Parallel()
				d := newDesk(t, nil)
				server := newServer()
				server.AddTool(&mcp.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)}, booksAndAsks(name == "early"))
				wrap(t, server, d.tools, oneUser(), map[string]mcpdedup.Policy{"book": {Class: tool.Write}})
				there, here := mcp.NewInMemoryTransports()
				ss, err := server.Connect(t.Context(), there, nil)
				require.NoError(t, err)
				client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
					ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
					},
				})
				cs, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: version})
				require.NoError(t, err)
				t.Cleanup(func() { cs.Close(); ss.Wait() })
				for range 2 {
					res := call(t, cs, "book", args{mcpdedup.KeyArgument: "k"})
					require.Equal(t, "booked", text(res))
				}
				require.Equal(t, want, d.count(t, "bookings"))
			})
		}
	}
}

// booksAndAsks is a handler that books, before it asks the client for input or after.
func booksAndAsks(early bool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		asks := req.Params.InputResponses == nil
		if early || !asks {
			tx, _ := mcpdedup.Tx(ctx)
			if _, err := tx.Exec(ctx, `INSERT INTO bookings (guest) VALUES ('Ada')`); err != nil {
				return nil, err
			}
		}
		if asks {
			schema := map[string]any{"type": "object", "properties": map[string]any{}}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{Message: "sure?", RequestedSchema: schema}}}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "booked"}}}, nil
	}
}
