package mcpdedup

import (
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// result returns the MCP result for a tool's answer.
func (e *exposed) result(a tool.Answer) *mcp.CallToolResult {
	duplicate, createdAt := door.IsDuplicate(a.Replayed, a.Recovered), ""
	var meta mcp.Meta
	if a.Key != "" && !a.CreatedAt.IsZero() { // the call has a record
		meta, createdAt = recordMeta(a.Key, duplicate, a.CreatedAt), rfc3339(a.CreatedAt)
	}
	if !e.info.External && !e.opts.Envelope {
		return textResult(a.JSON, meta)
	}
	o := &operation{Status: door.StateDone, Result: a.JSON, Duplicate: &duplicate, CreatedAt: createdAt}
	if e.info.External {
		o.Operation = operationOf(e.info.Name, a.Key)
	}
	return o.answer(meta)
}

// textResult returns a result with a text. If the text is a JSON object, it is the structured
// content too.
func textResult(text json.RawMessage, meta mcp.Meta) *mcp.CallToolResult {
	res := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, Meta: meta}
	if isObject(text) {
		res.StructuredContent = text
	}
	return res
}

func recordMeta(key string, duplicate bool, createdAt time.Time) mcp.Meta {
	return mcp.Meta{MetaKey: key, door.MetaDuplicate: duplicate, door.MetaCreatedAt: rfc3339(createdAt)}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
