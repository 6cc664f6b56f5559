package mcpdedup

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// firstWithResultType is the version of MCP from which on every result says of
// which type it is.
const firstWithResultType = "2026-07-28"

// complete marks an answer of the middleware's own as the last of its call, where
// the client's version of MCP asks for that. The SDK does so for handlers, behind
// the middleware. The mark has no exported field: it can be read, not set.
func complete(session *mcp.ServerSession, res *mcp.CallToolResult) *mcp.CallToolResult {
	if session == nil {
		return res
	}
	if params := session.InitializeParams(); params == nil || params.ProtocolVersion < firstWithResultType {
		return res
	}
	var marked mcp.CallToolResult
	if err := json.Unmarshal([]byte(`{"content":[],"resultType":"complete"}`), &marked); err != nil {
		return res
	}
	marked.Meta, marked.Content, marked.StructuredContent, marked.IsError = res.Meta, res.Content, res.StructuredContent, res.IsError
	return &marked
}
