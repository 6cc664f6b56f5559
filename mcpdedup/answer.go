package mcpdedup

import (
	"encoding/json"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// answered makes of a tool's answer the protocol's.
func (e *exposed) answered(a tool.Answer) *mcp.CallToolResult {
	if e.info.External {
		return e.doneOperation(a)
	}
	text, duplicate := a.JSON, door.IsDuplicate(a.Replayed, a.Recovered)
	if e.opts.Envelope {
		of := enveloped{Result: text, Duplicate: duplicate}
		if !a.FirstAt.IsZero() {
			of.FirstAt = rfc3339(a.FirstAt)
		}
		text, _ = door.JSON(of) // the result was found to be JSON
	}
	res := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}
	if isObject(text) {
		res.StructuredContent = text
	}
	if a.Key == "" || a.FirstAt.IsZero() {
		return res // there is no record
	}
	res.Meta = recordMeta(a.Key, duplicate, a.FirstAt)
	return res
}

func recordMeta(key string, duplicate bool, firstAt time.Time) mcp.Meta {
	return mcp.Meta{MetaKey: key, door.MetaDuplicate: duplicate, door.MetaFirstAt: rfc3339(firstAt)}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// enveloped is a result with what a model may want to know of it.
type enveloped struct {
	Result    json.RawMessage `json:"result"`
	Duplicate bool            `json:"duplicate"`
	FirstAt   string          `json:"firstAt,omitempty"`
}

func envelopeSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{
			door.MetaDuplicate: {Type: "boolean", Description: "Whether this is the answer of an earlier call, and nothing was done now."},
			door.MetaFirstAt:   {Type: "string", Format: "date-time", Description: "When the call was carried out."},
		},
		PropertyOrder: []string{door.MetaDuplicate, door.MetaFirstAt},
		Required:      []string{"result", door.MetaDuplicate},
	}
}
