package tool

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is one that encoding/json sees of a struct: its own, or one of a struct that it embeds.
type field struct {
	reflect.StructField
	at               place
	way              []int // from the struct
	name             string
	named            bool // by its tag
	quoted, optional bool
}

// hides reports whether another field of the same name is none because of f.
func (f *field) hides(other *field) bool {
	return len(f.way) < len(other.way) || len(f.way) == len(other.way) && f.named && !other.named
}

// members plans the members of a struct.
func (p *planner) members(s *shape, at place) {
	all := p.fields(s.typ, at, nil, nil)
	for _, f := range all {
		hidden := slices.ContainsFunc(all, func(o *field) bool { return o != f && o.name == f.name && !f.hides(o) })
		if hidden && p.reads {
			p.report(f.at.path, "is the name of two fields")
		}
		if hidden {
			continue
		}
		m := &member{field: f}
		if p.reads {
			p.mark(m)
		}
		m.value = p.shape(f.Type, place{f.at.path, f.at.index, f.at.optional || f.optional, f.at.dropped || m.dropped})
		if f.quoted {
			m.value = inText(m.value)
		}
		if p.reads && f.Tag.Get("dedup") == "key" {
			m.value.nullable = false // it would be a zero like any other
		}
		s.members = append(s.members, m)
	}
}

// fields lists the fields of a struct, also those that hide each other.
func (p *planner) fields(t reflect.Type, at place, way []int, within []reflect.Type) (all []*field) {
	for i := range t.NumField() {
		f := &field{StructField: t.Field(i), at: at, way: append(slices.Clone(way), i)}
		if at.index != nil {
			f.at.index = append(slices.Clone(at.index), i)
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		valid := !strings.ContainsFunc(name, isNoMemberName)
		behind := f.Type
		if behind.Kind() == reflect.Pointer {
			behind = behind.Elem()
		}
		flaw, embeds := "", f.Anonymous && behind.Kind() == reflect.Struct
		switch tagged := f.Tag.Get("dedup") != ""; {
		case f.Tag.Get("json") == "-" && tagged:
			flaw = "has a dedup tag and is no argument"
		case f.Tag.Get("json") == "-":
		case !f.IsExported() && !(embeds && (name == "" || !p.reads)):
			if tagged || f.Anonymous {
				flaw = "is not exported, and encoding/json does not see it"
			}
		case p.reads && !valid:
			flaw = "has a name in its json tag that encoding/json does not take"
		case embeds && (name == "" || !valid):
			if flaw = p.unfit(f, behind); slices.Contains(within, behind) {
				flaw = "embeds itself"
			} else if flaw == "" || !p.reads {
				if f.Type.Kind() == reflect.Pointer {
					f.at.index = nil
				}
				all = append(all, p.fields(behind, f.at, f.way, append(slices.Clone(within), behind))...)
			}
		default:
			f.name, f.named = name, name != "" && valid
			if !f.named {
				f.name = f.Name
			}
			f.at.path += "." + f.name
			f.quoted = slices.Contains(strings.Split(options, ","), "string")
			f.optional = strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
			all = append(all, f)
		}
		if flaw != "" && p.reads {
			p.report(at.path+"."+f.Name, flaw)
		}
	}
	return all
}

// unfit says why the fields of an embedded struct cannot be arguments.
func (p *planner) unfit(f *field, t reflect.Type) string {
	own, _ := p.own(t)
	switch {
	case f.Tag.Get("dedup") != "":
		return "has a dedup tag and is embedded; tag its fields, or give it a name in JSON"
	case own:
		return "is embedded and reads its own JSON; give it a name in JSON"
	case f.Type.Kind() == reflect.Pointer && !f.IsExported():
		return "is an embedded pointer to a type that is not exported, which encoding/json cannot fill"
	}
	return ""
}

// unread reports the dedup tags of a type that reads its own JSON: nobody would obey them.
func (p *planner) unread(t reflect.Type, at place) {
	own, _ := p.own(t)
	for i := 0; own && t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		if f := t.Field(i); f.Tag.Get("dedup") != "" {
			p.report(at.path+"."+f.Name, fmt.Sprintf("has a dedup tag and stands in %s, which reads its own JSON; tag the whole", t))
		}
	}
}

// isNoMemberName reports whether encoding/json, for a character in it, uses the field's own name
// instead of the tag's.
func isNoMemberName(c rune) bool {
	return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c)
}

// mark notes what the field's dedup tag says.
func (p *planner) mark(m *member) {
	path := strings.TrimPrefix(m.at.path, "In.")
	switch tag := m.Tag.Get("dedup"); tag {
	case "":
	case "ignore":
		m.dropped, p.plan.ignored = true, append(p.plan.ignored, path)
	case "redact":
		m.dropped, p.plan.redacted = true, append(p.plan.redacted, path)
	case "key":
		m.respelled = m.Type.Implements(textMarshaler)
		verbatim := m.Type.Kind() == reflect.String && !m.respelled
		p.plan.keys = append(p.plan.keys, keyField{path, m.at.index, verbatim})
		if reason := p.noKey(m, verbatim); reason != "" {
			p.report(m.at.path, "is tagged key and "+reason)
		}
	default:
		p.report(m.at.path, fmt.Sprintf("is tagged dedup:%q; the tags are key, ignore and redact", tag))
	}
}

// noKey says why a field cannot be part of the key.
func (p *planner) noKey(m *member, verbatim bool) string {
	switch {
	case p.class == ReadOnly:
		return "a ReadOnly tool has none"
	case m.at.index == nil:
		return "stands in a list, a map or behind a pointer; a key's fields are there in every call"
	case m.at.dropped:
		return "stands in a field that is not compared; a key is stored in the clear"
	case !isKeyType(m.Type):
		return fmt.Sprintf("is %s; a key is made of strings, integers, booleans and types with a MarshalText", m.Type)
	case (m.at.optional || m.optional) && !verbatim:
		// Left out it would be a zero like any other, and so one key for all calls that leave it out.
		return "may be left out; only a string may, which is no key where it is empty"
	}
	return ""
}
