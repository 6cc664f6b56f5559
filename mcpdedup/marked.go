package mcpdedup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// notPlain are the keywords because of which an added property could make an object fail
// its schema.
var notPlain = []string{
	"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies",
	"patternProperties", "propertyNames", "maxProperties", "const", "enum",
}

// markSchema adds the members of a marked result to the schema of a tool's results, of
// which every other byte stays.
func markSchema(schema json.RawMessage) (json.RawMessage, error) {
	for _, m := range membersOf(schema) {
		if slices.Contains(notPlain, m.name) {
			return nil, fmt.Errorf("mcpdedup: an output schema with %s cannot be marked", m.name)
		}
	}
	properties, err := container(schema, "properties", "{}")
	if err != nil {
		return nil, err
	}
	for _, m := range membersOf(properties) {
		if m.name == MetaDuplicate || m.name == MetaFirstAt {
			return nil, fmt.Errorf("mcpdedup: an output schema with a property %s cannot be marked", m.name)
		}
	}
	for _, p := range []struct {
		name   string
		schema *jsonschema.Schema
	}{{MetaDuplicate, duplicateSchema()}, {MetaFirstAt, firstAtSchema()}} {
		text, err := json.Marshal(p.schema)
		if err != nil {
			return nil, err
		}
		properties = appendItem(properties, named(p.name, text))
	}
	return setMember(schema, "properties", properties), nil
}

// mark adds to structured content what _meta says of the record, and to the text that
// repeats it. A result without structured content stays as it is.
func mark(res *mcp.CallToolResult) {
	content, ok := res.StructuredContent.(json.RawMessage)
	if !ok || !isObject(content) {
		return
	}
	marked := content
	for _, name := range []string{MetaDuplicate, MetaFirstAt} {
		value, _ := json.Marshal(res.Meta[name]) // a boolean and a text
		marked = setMember(marked, name, value)
	}
	res.StructuredContent = marked
	if len(res.Content) != 1 {
		return
	}
	if text, ok := res.Content[0].(*mcp.TextContent); ok && sameJSON([]byte(text.Text), content) {
		changed := *text
		changed.Text = string(marked)
		res.Content = []mcp.Content{&changed}
	}
}

// sameJSON reports whether two texts are one value, member by member.
func sameJSON(a, b []byte) bool {
	var values [2]any
	for i, text := range [][]byte{a, b} {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if dec.Decode(&values[i]) != nil || dec.More() {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
