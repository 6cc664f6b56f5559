package mcpdedup

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemas returns the schemas of a tool's arguments and results. That of results is nil where they
// may be something else than an object, which clients of most versions do not take. That of
// arguments is nil where it is reported.
func (e *exposed) schemas(report func(field, reason string)) (in, out json.RawMessage) {
	types := map[reflect.Type]json.RawMessage{}
	for t, given := range e.opts.TypeSchemas {
		text, err := schemaText(given)
		if err != nil {
			report("In", err.Error())
		}
		types[t] = text
	}
	in, err := e.info.InputSchema(types)
	if err == nil && !isObjectSchema(in) {
		err = errors.New("has a schema that is none of an object; repair it in Options.TypeSchemas")
	}
	if err != nil {
		report("In", err.Error())
		in = nil
	}
	out, err = e.info.OutputSchema(types)
	switch {
	case err != nil:
	case e.info.External:
		out = enveloped(operationSchema(), out)
	case e.opts.Envelope:
		out = enveloped(envelopeSchema(), out)
	case e.info.Out.Kind() != reflect.Struct || !isObjectSchema(out):
		out = nil
	}
	if err != nil {
		report("Out", err.Error())
	}
	return in, out
}

// enveloped returns the schema of results in an envelope, without which envelope is.
func enveloped(envelope *jsonschema.Schema, result json.RawMessage) json.RawMessage {
	text, _ := schemaText(envelope) // no step can fail, as both are schemas
	result, taken, _ := takeMembers(result, "$defs")
	properties, _ := container(text, "properties", "{}")
	text = setMember(text, "properties", appendItem(properties, named("result", result)))
	if defs, found := taken["$defs"]; found { // they are found from the root
		text = setMember(text, "$defs", defs)
	}
	return text
}

func isObjectSchema(schema json.RawMessage) bool {
	var shown struct{ Type any }
	return json.Unmarshal(schema, &shown) == nil && shown.Type == "object"
}
