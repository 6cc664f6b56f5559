package tool

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/tooldedup/dedup/internal/door"
)

// InputSchema returns the JSON Schema, draft 2020-12, of the tool's arguments. A call is accepted
// exactly if its arguments fit the schema, with these exceptions, which may be refused although
// they fit: times, bytes in a string, integers of 64 bits, and types that read their own JSON or
// text. The error names a field whose jsonschema tag is not a description.
func (i Info) InputSchema() (json.RawMessage, error) {
	return (&planner{reads: true}).schema("In", i.In)
}

// OutputSchema returns the schema of the tool's results, and the errors of InputSchema. Every
// result fits it, also one that another version of the type recorded: objects are open, and no
// member is required.
func (i Info) OutputSchema() (json.RawMessage, error) {
	return new(planner).schema("Out", i.Out)
}

// schema writes the schema from the plan that decode uses, so the two always agree.
// google/jsonschema-go was not used: it lacks a schema for a type that contains itself, and
// disagrees with encoding/json on null and numbers.
func (p *planner) schema(path string, t reflect.Type) (json.RawMessage, error) {
	text := p.describe(p.root(path, t), "")
	var defs []string
	for _, s := range p.recursive {
		defs = append(defs, quote(s.reference)+":"+s.text(false, ""))
	}
	if len(defs) > 0 {
		text = strings.TrimSuffix(text, "}") + `,"$defs":{` + strings.Join(defs, ",") + "}}"
	}
	return json.RawMessage(text), p.undescribed
}

// describe returns the schema of a shape inside another one: the schema itself, or a reference to
// it. doc is its description.
func (p *planner) describe(s *shape, doc string) string {
	null := ""
	for s.elem != nil && s.json == "" {
		s, null = s.elem, `{"type":"null"},`
	}
	if s.open && s.reference == "" {
		p.recursive = append(p.recursive, s)
		s.reference = fmt.Sprintf("type%d", len(p.recursive))
	}
	if s.reference == "" {
		return s.text(null != "", doc)
	}
	text := `{"$ref":"#/$defs/` + s.reference + `"}`
	if null+doc != "" {
		text = `{"anyOf":[` + null + text + `]` + doc + `}`
	}
	return text
}

// text returns the shape's own schema. null adds the type null.
func (s *shape) text(null bool, doc string) string {
	text := doc + s.rest
	switch {
	case s.json == "":
	case s.nullable || null:
		text = `,"type":["null",` + quote(s.json) + `]` + text
	default:
		text = `,"type":` + quote(s.json) + text
	}
	return "{" + strings.TrimPrefix(text, ",") + "}"
}

// object returns the part of a struct's schema that describes its members.
func (p *planner) object(members []*member) string {
	var properties, required []string
	for _, m := range members {
		doc := ""
		if tag, documented := m.tag.Lookup("jsonschema"); documented {
			doc = `,"description":` + quote(tag)
			if keyword.MatchString(tag) {
				p.undescribed = fmt.Errorf("has the field %s with a jsonschema tag that is not a description", m.name)
			}
		}
		properties = append(properties, quote(m.name)+":"+p.describe(m.value, doc))
		if !m.optional {
			required = append(required, quote(m.name))
		}
	}
	text := `,"properties":{` + strings.Join(properties, ",") + "}"
	switch {
	case !p.reads:
		return text
	case len(required) > 0:
		text += `,"required":[` + strings.Join(required, ",") + "]"
	}
	return text + `,"additionalProperties":false`
}

// keyword matches a jsonschema tag that libraries do not take as a description.
var keyword = regexp.MustCompile("^$|^[^ \t\n]*=")

// quote returns the JSON text of a string, with <, > and & unescaped.
func quote(text string) string {
	quoted, _ := door.JSON(text)
	return string(quoted)
}
