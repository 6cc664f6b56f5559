package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// plan is what the types of a tool's arguments and results say about their JSON. Arguments are
// decoded and checked by it, and schemas show it.
type plan struct {
	args, result      *shape
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
	json     string // the JSON type, empty of what may have several: a pointer, and what is read as it is
	rest     string // what a schema says beside
	nullable bool
	elem     *shape            // of a list, a map or a pointer, and what stands in a string
	keys     *shape            // of a map
	members  []*member         // of a struct
	fits     func(string) bool // of a string, nil where all do
}

// member is a field of a struct as it stands in JSON.
type member struct {
	*field
	value *shape
	// dropped members are not compared. respelled ones are part of the key and write their own text:
	// they are compared by it.
	dropped, respelled bool
}

// planOf reads the types of a tool's arguments and results.
func planOf(tool string, class Class, in, out reflect.Type) (*plan, []Problem) {
	p := &planner{tool: tool, class: class, plan: &plan{}, reads: true, known: map[reflect.Type]*shape{}}
	switch own, _ := p.own(in); {
	case in.Kind() != reflect.Struct:
		p.report("In", fmt.Sprintf("is %s and must be a struct, the fields of which are the arguments", in))
	case own:
		p.report("In", fmt.Sprintf("is %s, which reads its own JSON (it may be by a type that it embeds), so that its fields say nothing", in))
	default:
		p.plan.args = p.shape(in, place{path: "In", index: []int{}})
	}
	p.reads, p.known = false, map[reflect.Type]*shape{}
	p.plan.result = p.shape(out, place{path: "Out", index: []int{}})
	return p.plan, p.problems
}

// planner walks types as encoding/json does: that of arguments as it reads them, and that of
// results as it writes them.
type planner struct {
	tool     string
	class    Class
	plan     *plan
	problems []Problem
	reads    bool
	// known are the types in lists, in maps and behind pointers: only there can a type hold itself.
	known map[reflect.Type]*shape
}

func (p *planner) report(path, reason string) {
	p.problems = append(p.problems, Problem{p.tool, path, reason})
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
	s := &shape{typ: t}
	if at.index == nil {
		p.known[t] = s
	}
	if p.reads {
		p.unread(t, at)
	}
	kind := t.Kind()
	s.nullable = kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map
	switch own, text := p.own(t); {
	case t == reflect.TypeFor[json.Number](), kind == reflect.Float64 && !own:
		s.json = "number"
	case t == reflect.TypeFor[time.Time](): // it reads more than RFC 3339
		s = formed(s, `^\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
		s.rest += `,"format":"date-time"`
	case text:
		s.json, s.nullable = "string", s.nullable && p.reads // a nil one writes its own text
	case own, kind == reflect.Interface && (t.NumMethod() == 0 || !p.reads):
		s.nullable = true
	case kind == reflect.Float32: // up to what is rounded to infinity
		s.json, s.rest = "number", `,"minimum":-3.4028235677973366e+38,"maximum":3.4028235677973366e+38`
	case kind == reflect.String:
		s.json = "string"
	case kind == reflect.Bool:
		s.json = "boolean"
	case kind >= reflect.Int && kind <= reflect.Uintptr:
		s.json, s.rest = "integer", p.bounds(t)
	case kind == reflect.Pointer:
		s.elem = p.shape(t.Elem(), at.inside(""))
		for e := s.elem; e != nil && e.json == ""; e = e.elem {
			if e == s {
				p.report(at.path, fmt.Sprintf("is %s, which points to nothing but pointers", t))
				break
			}
		}
	case kind == reflect.Slice && p.isBytes(t):
		s.json, s.rest = "string", `,"contentEncoding":"base64"`+pattern(`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`)
		s.fits = func(text string) bool { return !strings.ContainsAny(text, "\r\n") }
	case kind == reflect.Slice || kind == reflect.Array:
		s.json, s.elem = "array", p.shape(t.Elem(), at.inside("[]"))
		if kind == reflect.Array {
			s.rest = fmt.Sprintf(`,"minItems":%d,"maxItems":%[1]d`, t.Len())
		}
	case kind == reflect.Map:
		s.json, s.keys, s.elem = "object", p.key(t.Key()), p.shape(t.Elem(), at.inside("[]"))
		if s.keys == nil {
			p.report(at.path, fmt.Sprintf("is %s, the keys of which have no JSON", t))
		}
	case kind == reflect.Struct:
		s.json = "object"
		p.members(s, at)
	case kind == reflect.Interface:
		p.report(at.path, fmt.Sprintf("is the interface %s, which encoding/json cannot read", t))
	default:
		p.report(at.path, fmt.Sprintf("is %s, which has no JSON", t))
	}
	return s
}

// own reports whether a type reads or writes its own JSON, so that its fields say nothing, and
// whether that is always a string: a method of the pointer alone does not always write.
func (p *planner) own(t reflect.Type) (own, text bool) {
	pointer := reflect.PointerTo(t)
	inJSON, inText, always := pointer.Implements(reflect.TypeFor[json.Marshaler]()), pointer.Implements(textMarshaler), t.Implements(textMarshaler)
	if p.reads {
		inJSON, inText, always = pointer.Implements(reflect.TypeFor[json.Unmarshaler]()), pointer.Implements(textUnmarshaler), true
	}
	// Reading, encoding/json does not see what a type without a name has from one that it embeds.
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface || p.reads && t.Name() == "" {
		return false, false
	}
	return inJSON || inText, inText && always && !inJSON
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// isBytes reports whether a list stands in a string.
func (p *planner) isBytes(t reflect.Type) bool {
	own, _ := p.own(t.Elem())
	return t.Elem().Kind() == reflect.Uint8 && !own
}

// bounds shows the bounds of an integer type. Those of 64 bits are no float64, which many read
// numbers as: an argument's is the next one that is, and a result's is rounded as the result is.
func (p *planner) bounds(t reflect.Type) string {
	low, high := limits(t)
	if next, _ := strconv.ParseFloat(high, 64); p.reads && t.Bits() == 64 {
		return fmt.Sprintf(`,"minimum":%s,"exclusiveMaximum":%.0f`, low, next)
	}
	return fmt.Sprintf(`,"minimum":%s,"maximum":%s`, low, high)
}

// limits returns the least and the greatest value of an integer type.
func limits(t reflect.Type) (low, high string) {
	most := ^uint64(0) >> (64 - t.Bits())
	if t.Kind() >= reflect.Uint {
		return "0", strconv.FormatUint(most, 10)
	}
	return "-" + strconv.FormatUint(most/2+1, 10), strconv.FormatUint(most/2, 10)
}

// key plans the key of a map, nil where it cannot be one.
func (p *planner) key(t reflect.Type) *shape {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return p.shape(t, place{})
	case p.reads && reflect.PointerTo(t).Implements(textUnmarshaler), !p.reads && t.Implements(textMarshaler), t.Kind() == reflect.String:
		return &shape{typ: t, json: "string"}
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr:
		return inText(&shape{typ: t, json: "integer"})
	}
	return nil
}

// inText returns the shape of a scalar, or of a pointer to one, that stands in a string. Of
// anything else the option means nothing.
func inText(s *shape) *shape {
	form := ""
	switch {
	case s.json == "" && s.elem != nil && s.elem.json != "" && s.typ.Name() == "":
		return &shape{typ: s.typ, nullable: true, elem: inText(s.elem)}
	case s.json == "string" && s.typ.Kind() == reflect.String:
		form = `^"([^"\\\x00-\x1f]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))*"$`
	case s.json == "boolean":
		form = `^(true|false)$`
	case s.json == "number":
		form = `^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$`
	case s.json == "integer":
		low, high := limits(s.typ)
		form = `^(0|` + upTo(high) + `)$`
		if low, negative := strings.CutPrefix(low, "-"); negative {
			form = `^(0|` + upTo(high) + `|-(` + upTo(low) + `))$`
		}
	default:
		return s
	}
	return formed(&shape{typ: s.typ, elem: s}, form)
}

// formed makes a string of a shape that has a form.
func formed(s *shape, form string) *shape {
	s.json, s.rest, s.fits = "string", pattern(form), regexp.MustCompile(form).MatchString
	return s
}

func pattern(form string) string { return `,"pattern":` + quote(form) }

// upTo matches the integers from 1 to a greatest one of several digits: those of fewer, those
// where one digit is smaller, and itself.
func upTo(greatest string) string {
	form, last := `[1-9]\d{0,`+strconv.Itoa(len(greatest)-2)+`}|`+greatest, len(greatest)-1
	for i, digit := range []byte(greatest) {
		if least := byte('0' + max(0, 1-i)); digit > least {
			form += fmt.Sprintf(`|%s[%c-%c]\d{%d}`, greatest[:i], least, digit-1, last-i)
		}
	}
	return form
}
