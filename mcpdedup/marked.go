package mcpdedup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

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
	shown := readObject(schema)
	for _, keyword := range notPlain {
		if shown.value(keyword) != nil {
			return nil, fmt.Errorf("mcpdedup: an output schema with %s cannot be marked", keyword)
		}
	}
	properties, err := shown.object("properties")
	if err != nil {
		return nil, err
	}
	marks, err := schemaText(envelopeSchema().Properties)
	if err != nil {
		return nil, err
	}
	for _, mark := range readObject(marks) {
		if properties.value(mark.name) != nil {
			return nil, fmt.Errorf("mcpdedup: an output schema with a property %s cannot be marked", mark.name)
		}
		properties.set(mark.name, mark.value)
	}
	shown.set("properties", properties.text())
	return shown.text(), nil
}

// mark adds to structured content what _meta says of the record, and to the text that
// repeats it. A result without structured content stays as it is.
func mark(res *mcp.CallToolResult) {
	content, ok := res.StructuredContent.(json.RawMessage)
	if !ok || !isObject(content) {
		return
	}
	of := readObject(content)
	for _, name := range []string{MetaDuplicate, MetaFirstAt} {
		value, _ := json.Marshal(res.Meta[name]) // a boolean and a text
		of.set(name, value)
	}
	marked := of.text()
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
