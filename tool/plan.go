package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"time"
)

// plan is what the types of a tool say about its arguments. They are checked by it before
// encoding/json reads them.
type plan struct {
	args              *shape
	keys              []keyField
	ignored, redacted []string // paths
}

type keyField struct {
	path     string
	index    []int
	verbatim bool // a string: by itself it is the key
}

// shape is what a type says of a JSON value.
type shape struct {
	typ      reflect.Type
	json     string // the JSON type, empty of what may have several: a pointer, and what reads its own
	rest     string // what a schema says beside
	nullable bool
	elem     *shape    // of a list, a map or a pointer
	members  []*member // of a struct
	// A shape is open while it is planned. One that holds itself has a reference.
	open      bool
	reference string
}

// member is a field of a struct as it stands in JSON.
type member struct {
	name     string
	tag      reflect.StructTag
	value    *shape
	optional bool
	// dropped members are not compared. respelled ones are part of the key and write their own text:
	// they are compared by it.
	dropped, respelled bool
}

// planOf reads the types of a tool's arguments and results.
func planOf(tool string, class Class, in, out reflect.Type) (*plan, []Problem) {
	args, results := &planner{tool: tool, class: class, reads: true}, &planner{tool: tool}
	switch own, _ := args.own(in); {
	case in.Kind() != reflect.Struct:
		args.report("In", fmt.Sprintf("is %s and must be a struct, the fields of which are the arguments", in))
	case own:
		args.report("In", fmt.Sprintf("is %s, which reads its own JSON (it may be by a type that it embeds), so that its fields say nothing", in))
	default:
		args.plan.args = args.root("In", in)
	}
	results.root("Out", out)
	return &args.plan, append(args.problems, results.problems...)
}

// planner walks a type as encoding/json does: that of arguments as it reads them, and that of
// results as it writes them.
type planner struct {
	tool     string
	class    Class
	reads    bool
	plan     plan
	problems []Problem
	// known are the types in lists, in maps and behind pointers: only there can a type hold itself.
	known       map[reflect.Type]*shape
	recursive   []*shape
	undescribed error // of schemas alone
}

func (p *planner) report(path, reason string) {
	p.problems = append(p.problems, Problem{p.tool, path, reason})
}

func (p *planner) root(path string, t reflect.Type) *shape {
	p.known = map[reflect.Type]*shape{}
	return p.shape(t, place{path: path, index: []int{}})
}

// place is where a type stands. Its index is nil in lists, in maps and behind pointers, where no
// field can be a key. A call may leave out what is optional, and what is dropped is not compared.
type place struct {
	path              string
	index             []int
	optional, dropped bool
}

func (at place) inside(suffix string) place {
	return place{at.path + suffix, nil, at.optional, at.dropped}
}

// shape plans a value of a type.
func (p *planner) shape(t reflect.Type, at place) *shape {
	if s := p.known[t]; s != nil && at.index == nil {
		return s
	}
	kind := t.Kind()
	s := &shape{typ: t, open: true, nullable: kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map}
	if at.index == nil && kind != reflect.Pointer {
		p.known[t] = s
	}
	own, text := p.own(t)
	if own && p.reads {
		p.unread(t, at)
	}
	switch {
	case t == reflect.TypeFor[json.Number](), kind == reflect.Float64 && !own:
		s.json = "number"
	case t == reflect.TypeFor[time.Time]():
		s.json, s.rest = "string", `,"format":"date-time"`
	case text, kind == reflect.String && !own:
		s.json = "string"
	case own, kind == reflect.Interface && (t.NumMethod() == 0 || !p.reads):
		s.nullable = true
	case kind == reflect.Float32: // up to what is rounded to infinity
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
		if own, _ := p.own(t.Key()); p.reads && (own || t.Key().Kind() != reflect.String) {
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

// own reports whether a type reads or writes its own JSON, so that its fields say nothing, and
// whether that is always a string: a method of the pointer alone does not always write.
func (p *planner) own(t reflect.Type) (own, text bool) {
	// Reading, encoding/json does not see what a type without a name has from one that it embeds.
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface || p.reads && t.Name() == "" {
		return false, false
	}
	pointer := reflect.PointerTo(t)
	if p.reads {
		inJSON, inText := pointer.Implements(reflect.TypeFor[json.Unmarshaler]()), pointer.Implements(textUnmarshaler)
		return inJSON || inText, inText && !inJSON
	}
	inJSON := pointer.Implements(reflect.TypeFor[json.Marshaler]())
	return inJSON || pointer.Implements(textMarshaler), !inJSON && t.Implements(textMarshaler)
}

// endless reports whether a type points to nothing but pointers.
func endless(t reflect.Type) bool {
	for n := 0; n < 100 && t.Kind() == reflect.Pointer; n++ {
		t = t.Elem()
	}
	return t.Kind() == reflect.Pointer
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// isBytes reports whether a list stands in a string.
func (p *planner) isBytes(t reflect.Type) bool {
	own, _ := p.own(t.Elem())
	return t.Elem().Kind() == reflect.Uint8 && !own
}

// rfc3339 is the form of a time in JSON. Go reads more, such as an offset of 24 hours, which it then cannot write.
var rfc3339 = regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"$`)
