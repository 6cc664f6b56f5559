package tool

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// members plans the fields of a struct that encoding/json sees: its own, and those of structs that
// it embeds. within are the embedding structs, from the outermost to the one that is walked.
func (p *planner) members(s *shape, at place, within ...reflect.Type) {
	t := within[len(within)-1]
	for i := range t.NumField() {
		f := t.Field(i)
		behind := f.Type
		if behind.Kind() == reflect.Pointer {
			behind = behind.Elem()
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		tagged, hidden, misnamed := f.Tag.Get("dedup") != "", f.Tag.Get("json") == "-", !memberName.MatchString(name)
		isStruct := f.Anonymous && behind.Kind() == reflect.Struct
		embeds := isStruct && (name == "" || misnamed)
		itself := embeds && slices.Contains(within, behind)
		custom, _ := p.customJSON(behind)
		quoted := isScalar(behind.Kind()) && slices.Contains(strings.Split(options, ","), "string")
		flaw := ""
		switch {
		case hidden && tagged:
			flaw = "has a dedup tag and is not an argument"
		case hidden:
		case embeds && tagged:
			flaw = "has a dedup tag and is embedded; tag its fields, or give it a name in JSON"
		case !f.IsExported() && (tagged || f.Anonymous && (!embeds || f.Type != behind)):
			flaw = "is not exported, so that encoding/json cannot fill it"
		case misnamed:
			flaw, name = "has a name in its json tag that encoding/json does not accept", ""
		case embeds && custom:
			flaw = "is embedded and reads its own JSON; give it a name in JSON"
		case itself:
			flaw = "embeds itself"
		case quoted:
			flaw = "has the option string in its json tag, by which one value has many spellings; take it out"
		}
		here := place{at.path, nil, at.optional, at.dropped}
		if at.index != nil && !(embeds && f.Type != behind) {
			here.index = append(slices.Clone(at.index), i)
		}
		switch {
		case flaw != "" && p.reads:
			p.report(at.path+"."+f.Name, flaw)
		case hidden, itself, !f.IsExported() && !isStruct:
		case embeds:
			p.members(s, here, append(within, behind)...)
		default:
			p.member(s, here, f, cmp.Or(name, f.Name), quoted && !custom)
		}
	}
}

// memberName matches the names that encoding/json accepts from a tag. For any other it uses the
// field's name.
var memberName = regexp.MustCompile(`^[\pL\p{Nd}!#$%&()*+\-./:;<=>?@\[\]^_{|}~ ]*$`)

// isScalar reports whether encoding/json obeys the tag option string for a kind of type.
func isScalar(kind reflect.Kind) bool {
	return kind >= reflect.Bool && kind <= reflect.Float64 || kind == reflect.String
}

// member plans a field that has a name in JSON.
func (p *planner) member(s *shape, at place, f reflect.StructField, name string, quoted bool) {
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	m := &member{name: name, tag: f.Tag, optional: strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")}
	at.path, at.optional = at.path+"."+name, at.optional || m.optional
	if p.reads {
		p.mark(m, f, at)
	}
	at.dropped = at.dropped || m.dropped
	m.value = p.shape(f.Type, at)
	if quoted {
		m.value = &shape{typ: f.Type, json: "string", nullable: f.Type.Kind() == reflect.Pointer}
	}
	if p.reads && f.Tag.Get("dedup") == "key" { // null would be a zero value like any other
		m.value.nullable = false // it would be a zero like any other
	}
	if twin := s.member(name); twin == nil {
		s.members = append(s.members, m)
	} else if twin.value = p.shape(reflect.TypeFor[any](), place{}); p.reads { // encoding/json may write either of the two
		p.report(at.path, "is the name of two fields")
	}
}

// mark applies a field's dedup tag to the plan.
func (p *planner) mark(m *member, f reflect.StructField, at place) {
	path := strings.TrimPrefix(at.path, "In.")
	switch tag := f.Tag.Get("dedup"); tag {
	case "":
	case "ignore":
		m.dropped, p.plan.ignored = true, append(p.plan.ignored, path)
	case "redact":
		m.dropped, p.plan.redacted = true, append(p.plan.redacted, path)
	case "key":
		m.respelled = f.Type.Implements(textMarshaler)
		verbatim := f.Type.Kind() == reflect.String && !m.respelled
		p.plan.keys = append(p.plan.keys, keyField{path, at.index, verbatim})
		if reason := p.unfitForKey(f.Type, at, verbatim); reason != "" {
			p.report(at.path, "is tagged key and "+reason)
		}
	default:
		p.report(at.path, fmt.Sprintf("is tagged dedup:%q; the tags are key, ignore and redact", tag))
	}
}

// unfitForKey says why a field cannot be part of the key, or returns "".
func (p *planner) unfitForKey(t reflect.Type, at place, verbatim bool) string {
	switch {
	case p.class == ReadOnly:
		return "a ReadOnly tool has none"
	case at.index == nil:
		return "stands in a list, a map or behind a pointer; a key's fields are there in every call"
	case at.dropped:
		return "stands in a field that is not compared; a key is stored in the clear"
	case !isKeyType(t):
		return fmt.Sprintf("is %s; a key is made of strings, integers, booleans and types with a MarshalText", t)
	case at.optional && !verbatim:
		// If it is left out it is a zero value: one key for all calls that leave it out.
		return "may be left out; only a string may, and an empty string makes no key"
	}
	return ""
}

// refuseTags reports dedup tags inside a type that reads its own JSON: nothing would obey them.
func (p *planner) refuseTags(t reflect.Type, at place) {
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		if f := t.Field(i); f.Tag.Get("dedup") != "" {
			p.report(at.path+"."+f.Name, fmt.Sprintf("has a dedup tag and stands in %s, which reads its own JSON; tag the whole", t))
		}
	}
}
