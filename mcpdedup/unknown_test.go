package mcpdedup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/mcpdedup"
)

// TestMiddlewareKnowsWhatIsUnknown: an unknown tool gets the same answer as without the middleware.
// So does a tool without a class, on every page of the list.
func TestMiddlewareKnowsWhatIsUnknown(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, &mcp.ServerOptions{PageSize: 2})
	ran := false
	for i := range 5 {
		server.AddTool(&mcp.Tool{Name: fmt.Sprint("tool", i), InputSchema: &struct {
			Type string `json:"type"`
		}{"object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			ran = true
			return &mcp.CallToolResult{}, nil
		})
	}
	const unknown = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool\"9","arguments":{"card":"canary"}}}`
	status, answer := poster(server)(unknown)
	require.Contains(t, answer, `-32602`)

	var told []mcpdedup.Failure
	wrap(t, server, d.tools, collecting(&told, mcpdedup.SingleUser("house")), policies)
	wrappedStatus, wrapped := poster(server)(unknown)
	require.Equal(t, status, wrappedStatus)
	require.Equal(t, answer, wrapped)
	require.Empty(t, told, "the server lacks nothing")

	// A tool that the middleware has no policy for is neither listed nor called.
	cs := connect(t, server)
	for shown, err := range cs.Tools(t.Context(), nil) {
		require.NoError(t, err)
		require.Nil(t, shown)
	}
	require.Len(t, told, 5)
	require.Equal(t, "tool0 unclassified", told[0].Tool+" "+told[0].Code)
	_, answer = poster(server)(strings.Replace(unknown, `tool\"9`, "tool4", 1))
	require.Contains(t, answer, `-32602`)
	require.False(t, ran)

	// A policy for a tool that the server lacks does not add the tool.
	_, answer = poster(server)(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","arguments":{"idempotencyKey":"k"}}}`)
	require.Contains(t, answer, `-32602`)
	require.Zero(t, d.count(t, "tool_dedup"))
}
