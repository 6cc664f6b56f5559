package mcpdedup

import (
	"encoding/json"
	"reflect"
)

// schemas returns the schemas of a tool's arguments and results. out is nil if a result may not be
// an object, because most versions of clients accept only objects. in is nil if report got a fault
// of it.
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

// withResult returns the envelope's schema with the schema of its result.
func withResult(result json.RawMessage) json.RawMessage {
	result, taken, _ := takeMembers(result, "$defs") // no step can fail, because both are schemas
	shown := readObject([]byte(operationSchema))
	properties, _ := shown.object("properties")
	properties.set("result", result)
	shown.set("properties", properties.text())
	if defs, found := taken["$defs"]; found { // references to them start at the root
		shown.set("$defs", defs)
	}
	return shown.text()
}

func isObjectSchema(schema json.RawMessage) bool {
	var shown struct{ Type any }
	return json.Unmarshal(schema, &shown) == nil && shown.Type == "object"
}
