package mcpdedup

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// firstWithResultType is the version of MCP that first requires a resultType in every result.
const firstWithResultType = "2026-07-28"

// complete sets the resultType of one of the middleware's own results to "complete", if the
// client's version of MCP requires one. For handlers, behind the middleware, the SDK sets it. The
// SDK's field is not exported, so it is set by decoding JSON.
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
