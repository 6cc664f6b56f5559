package mcpdedup

import (
	"encoding/json"
	"reflect"
)

// schemas returns the schemas of a tool's arguments and results. That of results is nil where they
// may be something else than an object, which clients of most versions do not take. That of
// arguments is nil where it is reported.
func (e *exposed) schemas(report func(field, reason string)) (in, out json.RawMessage) {
	in, err := e.info.InputSchema()
	if err != nil {
		report("In", err.Error())
		in = nil
	}
	out, err = e.info.OutputSchema()
	switch {
	case err != nil:
	case e.info.External, e.opts.Envelope:
		out = withResult(out)
	case e.info.Out.Kind() != reflect.Struct || !isObjectSchema(out):
		out = nil
	}
	if err != nil {
		report("Out", err.Error())
	}
	return in, out
}

// withResult returns the schema of results in the envelope.
func withResult(result json.RawMessage) json.RawMessage {
	result, taken, _ := takeMembers(result, "$defs") // no step can fail, as both are schemas
	shown := readObject([]byte(operationSchema))
	properties, _ := shown.object("properties")
	properties.set("result", result)
	shown.set("properties", properties.text())
	if defs, found := taken["$defs"]; found { // they are found from the root
		shown.set("$defs", defs)
	}
	return shown.text()
}

func isObjectSchema(schema json.RawMessage) bool {
	var shown struct{ Type any }
	return json.Unmarshal(schema, &shown) == nil && shown.Type == "object"
}
