package mcpdedup

import (
	"encoding/json"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/tool"
)

// answered makes of a tool's answer the protocol's.
func (e *exposed) answered(a tool.Answer) *mcp.CallToolResult {
	if e.info.External {
		return e.doneOperation(a)
	}
	text := a.JSON
	if e.opts.Envelope {
		text = envelope(a)
	}
	res := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}
	if isObject(text) {
		res.StructuredContent = text
	}
	if a.Key == "" || a.FirstAt.IsZero() {
		return res // there is no record
	}
	res.Meta = e.opts.recordMeta(a.Key, isDuplicate(a.Replayed, a.Recovered), a.FirstAt)
	if a.Lookalike != nil {
		res.Meta[MetaLookalike] = lookalikeMeta(a.Lookalike)
	}
	return res
}

// isDuplicate reports whether nothing was done now: a recovered answer is that of
// this very call.
func isDuplicate(replayed, recovered bool) bool { return replayed && !recovered }

func (o *Options) recordMeta(key string, duplicate bool, firstAt time.Time) mcp.Meta {
	return mcp.Meta{o.MetaKey: key, MetaDuplicate: duplicate, MetaFirstAt: rfc3339(firstAt)}
}

func lookalikeMeta(l *tool.Lookalike) map[string]any {
	return map[string]any{"at": rfc3339(l.At), "keyHash": l.KeyHash}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// envelope wraps a result with what a model may want to know of it.
func envelope(a tool.Answer) json.RawMessage {
	b := append([]byte(`{"result":`), a.JSON...)
	if a.FirstAt.IsZero() {
		return append(b, `,"duplicate":false}`...)
	}
	if isDuplicate(a.Replayed, a.Recovered) {
		b = append(b, `,"duplicate":true`...)
	} else {
		b = append(b, `,"duplicate":false`...)
	}
	return append(append(append(b, `,"firstAt":"`...), rfc3339(a.FirstAt)...), `"}`...)
}

func envelopeSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{
			"duplicate": duplicateSchema(),
			"firstAt":   firstAtSchema(),
		},
		PropertyOrder: []string{"duplicate", "firstAt"},
		Required:      []string{"result", "duplicate"},
	}
}

func duplicateSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "boolean", Description: "Whether this is the answer of an earlier call, and nothing was done now."}
}

func firstAtSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "date-time", Description: "When the call was carried out."}
}
