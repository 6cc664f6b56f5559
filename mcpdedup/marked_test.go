package mcpdedup_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// TestMarked: a client that drops _meta finds in the structured content, and in the text
// that repeats it, what the record says. It fits the output schema, which the SDK has
// closed.
func TestMarked(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	marked := map[string]mcpdedup.Policy{"book": policies["book"], "find": policies["find"]}
	book := marked["book"]
	book.Marked = true
	marked["book"] = book
	cs := connect(t, guardedServer(t, d, oneUser(), marked))
	list, err := cs.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "book", list.Tools[0].Name)
	shown := asJSON(t, list.Tools[0].OutputSchema)
	require.Contains(t, shown, `"additionalProperties": false`)
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal([]byte(shown), &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)

	for _, duplicate := range []bool{false, true} {
		res := call(t, cs, "book", args{"guest": "Ada", mcpdedup.KeyArgument: "k"})
		require.False(t, res.IsError, text(res))
		require.NoError(t, resolved.Validate(res.StructuredContent))
		require.JSONEq(t, asJSON(t, args{
			"id": json.Number("9007199254740993"), "guest": "Ada", "duplicate": duplicate, "firstAt": res.Meta[mcpdedup.MetaFirstAt],
		}), text(res))
		content := res.StructuredContent.(map[string]any)
		require.Equal(t, duplicate, content["duplicate"])
		require.Equal(t, res.Meta[mcpdedup.MetaFirstAt], content["firstAt"])
	}
	require.True(t, call(t, cs, "book", args{"guest": "Refused", mcpdedup.KeyArgument: "k2"}).IsError)
}

// TestMarkedKeepsTheRest: of a marked tool everything but the two members stays as it is,
// and a tool that cannot be marked is not listed.
func TestMarkedKeepsTheRest(t *testing.T) {
	t.Parallel()
	says := func(text string) []mcp.Content { return []mcp.Content{&mcp.TextContent{Text: text}} }
	for name, c := range map[string]struct {
		schema  string
		result  *mcp.CallToolResult
		content string // structured, with AT for the time
		refused string
	}{
		"NoStructuredContent": {result: &mcp.CallToolResult{Content: says(`{"a":1}`)}, content: `null`},
		"List":                {result: &mcp.CallToolResult{Content: says(`[1]`), StructuredContent: []int{1}}, content: `[1]`},
		"TextOfItsOwn": {
			schema: `{"type":"object","x-order":1e2}`,
			result: &mcp.CallToolResult{Content: says("Booked."), StructuredContent: json.RawMessage(`{"a":1.5}`)}, content: `{"a":1.5,"duplicate":false,"firstAt":"AT"}`,
		},
		"Combined": {schema: `{"type":"object","oneOf":[{}]}`, refused: "oneOf"},
		"Taken":    {schema: `{"type":"object","properties":{"firstAt":{}}}`, refused: "firstAt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []mcpdedup.Failure
			server := newServer()
			added := &mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}
			if c.schema != "" {
				added.OutputSchema = json.RawMessage(c.schema)
			}
			server.AddTool(added, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return c.result, nil })
			guard, err := mcpdedup.Middleware(newDesk(t, nil).tools.Deduper(), map[string]mcpdedup.Policy{"t": {Class: tool.Write, Marked: true}},
				collecting(&told, mcpdedup.SingleUser("house")))
			require.NoError(t, err)
			server.AddReceivingMiddleware(guard)
			cs := connect(t, server)
			list, err := cs.ListTools(t.Context(), nil)
			if c.refused != "" {
				require.Error(t, err)
				require.ErrorContains(t, told[0].Err, c.refused)
				return
			}
			require.NoError(t, err)
			if c.schema == "" {
				require.Nil(t, list.Tools[0].OutputSchema)
			} else {
				require.Contains(t, asJSON(t, list.Tools[0].OutputSchema), `"duplicate"`)
			}
			res := call(t, cs, "t", args{mcpdedup.KeyArgument: "k"})
			require.Equal(t, c.result.Content, res.Content)
			at, _ := res.Meta[mcpdedup.MetaFirstAt].(string)
			require.JSONEq(t, strings.ReplaceAll(c.content, "AT", at), asJSON(t, res.StructuredContent))
		})
	}
}
