package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// argsPlan is what the type of a tool's arguments says about them.
type argsPlan struct {
	root *object
	keys []keyField
	// tagged are the paths of all tagged fields.
	tagged []taggedField
	// rewrites reports whether what is compared may be another text than that of the
	// arguments: some are dropped or respelled.
	rewrites bool
}

type keyField struct {
	path     string
	index    []int
	verbatim bool // a string: by itself it is the key
}

type taggedField struct {
	path string
	mark mark
}

// mark is what a field's dedup tag says.
type mark string

const (
	fieldPlain    mark = ""
	fieldKey      mark = "key"
	fieldIgnored  mark = "ignore"
	fieldRedacted mark = "redact"
)

// names returns the paths of the fields with a mark.
func (p *argsPlan) names(m mark) (paths []string) {
	for _, f := range p.tagged {
		if f.mark == m {
			paths = append(paths, f.path)
		}
	}
	return paths
}

// secrets reports whether a type's own error might quote what must not be seen.
func (p *argsPlan) secrets() bool { return len(p.names(fieldRedacted)) > 0 }

// planArgs reads the type of a tool's arguments. The plan is nil if it is no
// struct.
func planArgs(tool string, class Class, in reflect.Type) (*argsPlan, []Problem) {
	p := &planner{tool: tool, class: class, plan: &argsPlan{}, known: map[reflect.Type]*shape{}}
	switch {
	case in.Kind() != reflect.Struct:
		p.report("In", fmt.Sprintf("is %s and must be a struct, the fields of which are the arguments", in))
		return nil, p.problems
	case decodesItself(in):
		p.report("In", fmt.Sprintf("is %s, which reads its own JSON (it may be by a type that it embeds), so that its fields say nothing", in))
		return nil, p.problems
	}
	p.plan.root = p.object(in, place{index: []int{}})
	return p.plan, p.problems
}

// planner walks the type of a tool's arguments.
type planner struct {
	tool     string
	class    Class
	plan     *argsPlan
	problems []Problem
	// known are the types that stand in lists, in maps or behind pointers: only
	// there can a type hold itself.
	known map[reflect.Type]*shape
	// embedding are the types whose fields are being read into their owner's.
	embedding []reflect.Type
}

// place is where in the arguments a type stands.
type place struct {
	path string
	// index says how to get there from In; it is nil in lists, in maps and
	// behind pointers, where no field can be a key.
	index []int
	// optional: a call may leave it out. dropped: it is not compared.
	optional, dropped bool
}

func (at place) member(name string) place {
	if at.path != "" {
		name = at.path + "." + name
	}
	at.path = name
	return at
}

func (at place) field(i int) place {
	if at.index != nil {
		at.index = append(at.index[:len(at.index):len(at.index)], i)
	}
	return at
}

// inside is the place of a list's elements, a map's values or what a pointer
// points to.
func (at place) inside(suffix string) place {
	at.path += suffix
	at.index = nil
	return at
}

func (p *planner) report(field, reason string) {
	p.problems = append(p.problems, Problem{p.tool, field, reason})
}

func (p *planner) object(t reflect.Type, at place) *object {
	o := &object{members: map[string]*member{}}
	p.fields(o, t, at)
	return o
}

func (p *planner) fields(o *object, t reflect.Type, at place) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		tagged := f.Tag.Get("dedup") != ""
		switch where := "In." + at.member(f.Name).path; {
		case f.Tag.Get("json") == "-":
			if tagged {
				p.report(where, "has a dedup tag and is no argument")
			}
		case f.Anonymous && name == "" && structBehind(f.Type) != nil:
			if tagged {
				p.report(where, "has a dedup tag and is embedded; tag its fields, or give it a name in JSON")
			}
			p.embed(o, f, at.field(i))
		case !f.IsExported():
			if tagged || f.Anonymous {
				p.report(where, "is not exported, and encoding/json does not see it")
			}
		case !isMemberName(name):
			p.report(where, "has a name in its json tag that encoding/json does not take")
		default:
			if name == "" {
				name = f.Name
			}
			p.field(o, f, name, options, at.member(name).field(i))
		}
	}
}

// embed makes an embedded struct's fields its owner's.
func (p *planner) embed(o *object, f reflect.StructField, at place) {
	t := structBehind(f.Type)
	where := "In." + at.member(f.Name).path
	switch {
	case slices.Contains(p.embedding, t):
		p.report(where, "embeds itself")
		return
	case decodesItself(t):
		p.report(where, "is embedded and reads its own JSON; give it a name in JSON")
		return
	case f.Type.Kind() == reflect.Pointer && !f.IsExported():
		p.report(where, "is an embedded pointer to a type that is not exported, which encoding/json cannot fill")
		return
	case f.Type.Kind() == reflect.Pointer:
		at = at.inside("")
	}
	p.embedding = append(p.embedding, t)
	p.fields(o, t, at)
	p.embedding = p.embedding[:len(p.embedding)-1]
}

func (p *planner) field(o *object, f reflect.StructField, name, options string, at place) {
	if o.members[name] != nil {
		p.report("In."+at.path, "is the name of two fields")
		return
	}
	optional := hasOption(options, "omitempty") || hasOption(options, "omitzero")
	m := &member{name: name, pos: len(o.members), required: !optional}
	o.members[name] = m
	o.ordered = append(o.ordered, m)
	at.optional = at.optional || optional
	p.mark(m, f, at)
	at.dropped = at.dropped || m.dropped
	if hasOption(options, "string") && isScalar(f.Type) {
		m.value = &shape{typ: f.Type, nullable: isNullable(f.Type), quoted: true} // a number in a string
	} else {
		m.value = p.shape(f.Type, at)
	}
	if f.Tag.Get("dedup") == string(fieldKey) {
		m.value.nullable = false // it would be a zero like any other
	}
}

// mark notes what the field's tag says.
func (p *planner) mark(m *member, f reflect.StructField, at place) {
	tag := mark(f.Tag.Get("dedup"))
	switch tag {
	case fieldPlain:
		return
	case fieldIgnored, fieldRedacted:
		m.dropped = true
		p.plan.rewrites = true
	case fieldKey:
		p.markKey(f, at)
		m.respelled = f.Type.Implements(textMarshaler)
		p.plan.rewrites = p.plan.rewrites || m.respelled
	default:
		p.report("In."+at.path, fmt.Sprintf("is tagged dedup:%q; the tags are key, ignore and redact", string(tag)))
		return
	}
	p.plan.tagged = append(p.plan.tagged, taggedField{at.path, tag})
}

func (p *planner) markKey(f reflect.StructField, at place) {
	field := keyField{path: at.path, index: at.index, verbatim: f.Type.Kind() == reflect.String && !f.Type.Implements(textMarshaler)}
	switch {
	case p.class == ReadOnly:
		p.report("In."+at.path, "is tagged key, and a ReadOnly tool has none")
	case at.index == nil:
		p.report("In."+at.path, "is tagged key and stands in a list, a map or behind a pointer; a key's fields are there in every call")
	case at.dropped:
		p.report("In."+at.path, "is tagged key and stands in a field that is not compared; a key is stored in the clear")
	case !isKeyType(f.Type):
		p.report("In."+at.path, fmt.Sprintf("is tagged key and is %s; a key is made of strings, integers, booleans and types with a MarshalText", f.Type))
	case at.optional && !field.verbatim:
		// Left out it would be a zero like any other, and so one key for all
		// calls that leave it out.
		p.report("In."+at.path, "is tagged key and may be left out; only a string may, which is no key where it is empty")
	}
	p.plan.keys = append(p.plan.keys, field)
}

// shape plans a value of a type.
func (p *planner) shape(t reflect.Type, at place) *shape {
	if at.index == nil {
		if s := p.known[t]; s != nil {
			return s
		}
	}
	s := &shape{typ: t, nullable: isNullable(t)}
	if at.index == nil {
		p.known[t] = s
	}
	if decodesItself(t) {
		p.unread(t, at)
		return s
	}
	if t == reflect.TypeFor[json.Number]() {
		s.kind = aNumber
		return s
	}
	switch t.Kind() {
	case reflect.String:
		s.kind = aString
	case reflect.Bool:
		s.kind = aBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.kind = anInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		s.kind = aUint
	case reflect.Float32, reflect.Float64:
		s.kind = aFloat
	case reflect.Pointer:
		s.kind, s.elem = aPointer, p.shape(t.Elem(), at.inside(""))
	case reflect.Struct:
		s.kind, s.object = anObject, &object{members: map[string]*member{}}
		outer := p.embedding
		p.embedding = nil // what it embeds is read into itself
		p.fields(s.object, t, at)
		p.embedding = outer
	case reflect.Array:
		s.kind, s.elem = anArray, p.shape(t.Elem(), at.inside("[]"))
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // those stand in JSON as base64, or as a list
			s.kind, s.elem = aList, p.shape(t.Elem(), at.inside("[]"))
		}
	case reflect.Map:
		if !isMapKey(t.Key()) {
			p.report("In."+at.path, fmt.Sprintf("is %s, the keys of which encoding/json cannot read", t))
		}
		s.kind, s.elem = aMap, p.shape(t.Elem(), at.inside("[]"))
	case reflect.Interface:
		if t.NumMethod() > 0 {
			p.report("In."+at.path, fmt.Sprintf("is the interface %s, which encoding/json cannot read", t))
		}
	default:
		p.report("In."+at.path, fmt.Sprintf("is %s, which has no JSON and so no fingerprint", t))
	}
	return s
}

// unread reports the tags of a type that reads its own JSON: nobody would obey them.
func (p *planner) unread(t reflect.Type, at place) {
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("dedup") != "" {
			p.report("In."+at.member(f.Name).path, fmt.Sprintf("has a dedup tag and stands in %s, which reads its own JSON; tag the whole", t))
		}
	}
}

// structBehind returns the struct that t is or points to, or nil.
func structBehind(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// decodesItself reports whether a type reads its own JSON, so that its fields say
// nothing.
func decodesItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(textUnmarshaler)
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// isNullable reports whether null is a value of a type. encoding/json leaves other
// fields as they were, which would make null and a zero one call.
func isNullable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	default:
		return t != reflect.TypeFor[time.Time]() && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
	}
}

func isMapKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	default:
		return reflect.PointerTo(t).Implements(textUnmarshaler)
	}
}

// isScalar reports whether the option "string" of a json tag means something for
// a field.
func isScalar(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map, reflect.Interface, reflect.Pointer:
		return false
	default:
		return true
	}
}

// isMemberName reports whether encoding/json takes a tag's name. It uses the
// field's own name instead of one that it does not take.
func isMemberName(name string) bool {
	for _, c := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return true
}

func hasOption(options, want string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if option == want {
			return true
		}
	}
	return false
}
