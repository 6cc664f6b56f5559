package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// InputSchema returns the JSON Schema, of draft 2020-12, of the tool's arguments. What fits it is
// taken, and nothing else; but a type that reads its own JSON or text may refuse more. In the place
// of such a type's schema, a string or anything at all, stands what types have for it. The error
// names a field whose jsonschema tag is not a description.
func (i Info) InputSchema(types map[reflect.Type]json.RawMessage) (json.RawMessage, error) {
	return (&describer{types: types, closed: true}).root(i.plan.args)
}

// OutputSchema returns the schema of the tool's results, like InputSchema. Every result fits it,
// also one that another version of the type has recorded: objects are open, and no member of them
// is required.
func (i Info) OutputSchema(types map[reflect.Type]json.RawMessage) (json.RawMessage, error) {
	return (&describer{types: types}).root(i.plan.result)
}

type describer struct {
	types  map[reflect.Type]json.RawMessage
	closed bool
	within []*shape          // those that are being described
	names  map[*shape]string // of those that hold themselves
	defs   map[string]string
	err    error
}

func (w *describer) root(s *shape) (json.RawMessage, error) {
	w.names, w.defs = map[*shape]string{}, map[string]string{}
	text := w.of(s, false, "")
	if len(w.defs) > 0 {
		text = strings.TrimSuffix(text, "}") + `,"$defs":{`
		for _, name := range slices.Sorted(maps.Keys(w.defs)) {
			text += quote(name) + ":" + w.defs[name] + ","
		}
		text = strings.TrimSuffix(text, ",") + "}}"
	}
	return json.RawMessage(text), w.err
}

// of describes a shape, and allows null beside it. doc is a description.
func (w *describer) of(s *shape, null bool, doc string) string {
	text := string(w.types[s.typ])
	switch {
	case text != "":
	case s.json == "" && s.elem != nil:
		return w.of(s.elem, true, doc)
	case slices.Contains(w.within, s):
		if w.names[s] == "" {
			w.names[s] = fmt.Sprintf("type%d", len(w.names)+1)
		}
		text = `{"$ref":"#/$defs/` + w.names[s] + `"}`
	default:
		w.within = append(w.within, s)
		own := w.describe(s, null, doc)
		if w.names[s] != "" {
			w.defs[w.names[s]] = w.describe(s, false, "")
		}
		w.within = w.within[:len(w.within)-1]
		return own
	}
	switch {
	case null:
		return `{"anyOf":[{"type":"null"},` + text + `]` + doc + `}`
	case doc != "":
		return `{"allOf":[` + text + `]` + doc + `}`
	}
	return text
}

func (w *describer) describe(s *shape, null bool, doc string) string {
	text := `,"type":` + quote(s.json)
	switch {
	case s.json == "" && s.nullable:
		text = ""
	case s.json == "":
		text = `,"not":{"type":"null"}`
	case s.nullable || null:
		text = `,"type":["null",` + quote(s.json) + `]`
	}
	text += doc + s.rest
	switch {
	case s.json == "array":
		text += `,"items":` + w.of(s.elem, false, "")
	case s.keys != nil:
		if s.keys.rest != "" {
			text += `,"propertyNames":` + w.of(s.keys, false, "")
		}
		text += `,"additionalProperties":` + w.of(s.elem, false, "")
	case s.json == "object":
		text += w.members(s)
	}
	return "{" + strings.TrimPrefix(text, ",") + "}"
}

func (w *describer) members(s *shape) string {
	var properties, required []string
	for _, m := range s.members {
		doc, documented := m.Tag.Lookup("jsonschema")
		if word, _, assigned := strings.Cut(doc, "="); documented && (doc == "" || assigned && !strings.ContainsAny(word, " \t\n")) {
			w.err = fmt.Errorf("has the field %s with a jsonschema tag that is not a description", m.name)
		}
		if documented {
			doc = `,"description":` + quote(doc)
		}
		properties = append(properties, quote(m.name)+":"+w.of(m.value, false, doc))
		if !m.optional {
			required = append(required, quote(m.name))
		}
	}
	text := `,"properties":{` + strings.Join(properties, ",") + "}"
	if w.closed && len(required) > 0 {
		text += `,"required":[` + strings.Join(required, ",") + "]"
	}
	if w.closed {
		text += `,"additionalProperties":false`
	}
	return text
}

// quote returns the JSON text of a string, with <, > and & as they are.
func quote(text string) string {
	quoted, _ := encode(text)
	return string(quoted)
}
