package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/tooldedup/dedup/internal/canon"
)

// plan describes a tool's arguments, as their Go type declares them. It checks a call's arguments
// before encoding/json reads them.
type plan struct {
	args              *shape
	keys              []keyField
	ignored, redacted []string // paths
}

type keyField struct {
	path     string
	index    []int
	verbatim bool // a string field: alone, it is the key as it is
}

// shape describes the JSON that a Go type reads or writes.
type shape struct {
	typ      reflect.Type
	json     string // the JSON type; empty for a pointer and for a type with its own JSON, which may have several
	rest     string // the rest of the schema
	nullable bool
	elem     *shape    // the element of a list, a map or a pointer
	members  []*member // the members of a struct
	// open is true while the shape is planned. reference is set if the type contains itself.
	open      bool
	reference string
}

// member is a field of a struct, as it appears in JSON.
type member struct {
	name     string
	tag      reflect.StructTag
	value    *shape
	optional bool
	// dropped members are not compared. respelled members are part of the key and have a
	// MarshalText: they are compared by that text.
	dropped, respelled bool
}

// planOf plans the types of a tool's arguments and results.
func planOf(tool string, class Class, in, out reflect.Type) (*plan, []Problem) {
	args, results := &planner{tool: tool, class: class, reads: true}, &planner{tool: tool}
	switch custom, _ := args.customJSON(in); {
	case in.Kind() != reflect.Struct:
		args.report("In", fmt.Sprintf("is %s and must be a struct, whose fields are the arguments", in))
	case custom:
		args.report("In", fmt.Sprintf("is %s, which reads its own JSON (perhaps by a method of an embedded type), so its fields do not describe it", in))
	default:
		args.plan.args = args.root("In", in)
	}
	if results.root("Out", out); !endless(out) && canon.IsHollow(reflect.PointerTo(out)) {
		results.report("Out", fmt.Sprintf("is %s, which is encoded as {} whatever it holds; export its fields", out))
	}
	return &args.plan, append(args.problems, results.problems...)
}

// planner walks a type as encoding/json does: for arguments as it reads them, for results as it
// writes them.
type planner struct {
	tool     string
	class    Class
	reads    bool
	plan     plan
	problems []Problem
	// known are the types in lists, in maps and behind pointers. Only there can a type contain
	// itself.
	known       map[reflect.Type]*shape
	recursive   []*shape
	undescribed error // set by describe only
}

func (p *planner) report(path, reason string) {
	p.problems = append(p.problems, Problem{p.tool, path, reason})
}

func (p *planner) root(path string, t reflect.Type) *shape {
	p.known = map[reflect.Type]*shape{}
	return p.shape(t, place{path: path, index: []int{}})
}

// place is where in the arguments or the result a type occurs. index is nil in lists, in maps and
// behind pointers, where a field cannot be part of the key. A call may leave out an optional place.
// A dropped place is not compared.
type place struct {
	path              string
	index             []int
	optional, dropped bool
}

func (at place) inside(suffix string) place {
	return place{at.path + suffix, nil, at.optional, at.dropped}
}

// shape plans a type at a place.
func (p *planner) shape(t reflect.Type, at place) *shape {
	if s := p.known[t]; s != nil && at.index == nil {
		return s
	}
	kind := t.Kind()
	s := &shape{typ: t, open: true, nullable: kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map}
	if at.index == nil && kind != reflect.Pointer {
		p.known[t] = s
	}
	custom, text := p.customJSON(t)
	if custom && p.reads {
		p.refuseTags(t, at)
	}
	switch {
	case t == reflect.TypeFor[json.Number](), kind == reflect.Float64 && !custom:
		s.json = "number"
	case t == reflect.TypeFor[time.Time]():
		s.json, s.rest = "string", `,"format":"date-time"`
	case text, kind == reflect.String && !custom:
		s.json = "string"
	case custom, kind == reflect.Interface && (t.NumMethod() == 0 || !p.reads):
		s.nullable = true
	case kind == reflect.Float32: // larger float64s round to infinity
		s.json, s.rest = "number", `,"minimum":-3.4028235677973366e+38,"maximum":3.4028235677973366e+38`
	case kind == reflect.Bool:
		s.json = "boolean"
	case kind >= reflect.Int && kind <= reflect.Int64:
		most := int64(^uint64(0) >> 1 >> (64 - t.Bits()))
		s.json, s.rest = "integer", fmt.Sprintf(`,"minimum":%d,"maximum":%d`, -most-1, most)
	case kind >= reflect.Uint && kind <= reflect.Uintptr:
		s.json, s.rest = "integer", fmt.Sprintf(`,"minimum":0,"maximum":%d`, ^uint64(0)>>(64-t.Bits()))
	case kind == reflect.Pointer && !endless(t):
		s.elem = p.shape(t.Elem(), at.inside(""))
	case kind == reflect.Slice && p.isBytes(t):
		s.json, s.rest = "string", `,"contentEncoding":"base64"`
	case kind == reflect.Slice, kind == reflect.Array:
		s.json, s.elem = "array", p.shape(t.Elem(), at.inside("[]"))
		s.rest = `,"items":` + p.describe(s.elem, "")
		if kind == reflect.Array {
			s.rest += fmt.Sprintf(`,"minItems":%d,"maxItems":%[1]d`, t.Len())
		}
	case kind == reflect.Map:
		if custom, _ := p.customJSON(t.Key()); p.reads && (custom || t.Key().Kind() != reflect.String) {
			p.report(at.path, fmt.Sprintf("is %s, and the keys of a map must be strings; two spellings would be one key", t))
		}
		s.json, s.elem = "object", p.shape(t.Elem(), at.inside("[]"))
		s.rest = `,"additionalProperties":` + p.describe(s.elem, "")
	case kind == reflect.Struct:
		s.json = "object"
		p.members(s, at, t)
		s.rest = p.object(s.members)
	default:
		p.report(at.path, fmt.Sprintf("is %s, which has no JSON", t))
	}
	s.open = false
	return s
}

// customJSON reports whether a type reads or writes its own JSON, so that its fields do not
// describe it. text reports whether that JSON is always a string. It is not if the method has a
// pointer receiver: encoding/json cannot call such a method on every value. A json.Number has
// methods since Go 1.27, but its JSON is that of the releases before.
func (p *planner) customJSON(t reflect.Type) (custom, text bool) {
	// When it reads, encoding/json ignores the methods that an unnamed type has from an embedded
	// one.
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface || t == reflect.TypeFor[json.Number]() || p.reads && t.Name() == "" {
		return false, false
	}
	pointer := reflect.PointerTo(t)
	if p.reads {
		inJSON, inText := canon.ReadsJSON(pointer), pointer.Implements(textUnmarshaler)
		return inJSON || inText, inText && !inJSON
	}
	inJSON := canon.WritesJSON(pointer)
	return inJSON || pointer.Implements(textMarshaler), !inJSON && t.Implements(textMarshaler)
}

// endless reports whether a type is a chain of pointers without an end.
func endless(t reflect.Type) bool {
	for n := 0; n < 100 && t.Kind() == reflect.Pointer; n++ {
		t = t.Elem()
	}
	return t.Kind() == reflect.Pointer
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// isBytes reports whether encoding/json writes a slice as a base64 string.
func (p *planner) isBytes(t reflect.Type) bool {
	custom, _ := p.customJSON(t.Elem())
	return t.Elem().Kind() == reflect.Uint8 && !custom
}

// rfc3339 is the form of a time in JSON. Go reads more, such as an offset of 24 hours, and then
// cannot write it.
var rfc3339 = regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"$`)
