package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// argsPlan is what the type of a tool's arguments says about them.
type argsPlan struct {
	root *object
	keys []keyField
	// tagged are the paths of all tagged fields.
	tagged []taggedField
}

// object is a JSON object whose members are the fields of a struct.
type object struct {
	members  map[string]*member
	required []string
}

// member is a field of a struct as it stands in JSON.
type member struct {
	value    *shape
	nullable bool
	// dropped members are not compared.
	dropped bool
}

// shape is what is known of a JSON value before it is decoded; nil is nothing.
type shape struct {
	object *object // of a struct
	elem   *shape  // of an array's elements, or of a map's values
	open   byte    // '[' or '{', where elem is set
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

// drops tells whether there is anything that is not compared.
func (p *argsPlan) drops() bool {
	return len(p.names(fieldIgnored))+len(p.names(fieldRedacted)) > 0
}

// planArgs reads the type of a tool's arguments. The plan is nil if it is no
// struct.
func planArgs(tool string, class Class, in reflect.Type) (*argsPlan, []Problem) {
	p := &planner{tool: tool, class: class, plan: &argsPlan{}, known: map[reflect.Type]*object{}}
	if in.Kind() != reflect.Struct || decodesItself(in) {
		p.report("In", fmt.Sprintf("is %s and must be a struct, the fields of which are the arguments", in))
		return nil, p.problems
	}
	p.plan.root = p.object(in, "", []int{})
	return p.plan, p.problems
}

// planner walks the type of a tool's arguments.
type planner struct {
	tool     string
	class    Class
	plan     *argsPlan
	problems []Problem
	known    map[reflect.Type]*object // types may hold themselves
}

func (p *planner) report(field, reason string) {
	p.problems = append(p.problems, Problem{p.tool, field, reason})
}

// object plans a struct. The index says how to get there from In; it is nil
// behind pointers, lists and maps, where no field can be a key.
func (p *planner) object(t reflect.Type, path string, index []int) *object {
	if o := p.known[t]; o != nil {
		return o
	}
	o := &object{members: map[string]*member{}}
	p.known[t] = o
	p.fields(o, t, path, index)
	return o
}

func (p *planner) fields(o *object, t reflect.Type, path string, index []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		var at []int
		if index != nil {
			at = append(index[:len(index):len(index)], i)
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Tag.Get("json") == "-":
			if f.Tag.Get("dedup") != "" {
				p.report("In."+join(path, f.Name), "has a dedup tag and is no argument")
			}
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct && !decodesItself(f.Type):
			p.fields(o, f.Type, path, at) // its fields are its owner's
		case !f.IsExported():
			if f.Tag.Get("dedup") != "" || f.Anonymous {
				p.report("In."+join(path, f.Name), "is not exported, and encoding/json does not see it")
			}
		default:
			if name == "" {
				name = f.Name
			}
			p.field(o, f, name, options, join(path, name), at)
		}
	}
}

func (p *planner) field(o *object, f reflect.StructField, name, options, path string, index []int) {
	if o.members[name] != nil {
		p.report("In."+path, "is the name of two fields")
		return
	}
	m := &member{nullable: isNullable(f.Type)}
	o.members[name] = m
	if !hasOption(options, "omitempty") && !hasOption(options, "omitzero") {
		o.required = append(o.required, name)
	}
	p.mark(m, f, path, index)
	m.value = p.shape(f.Type, path, index)
}

// mark notes what the field's tag says.
func (p *planner) mark(m *member, f reflect.StructField, path string, index []int) {
	tag := mark(f.Tag.Get("dedup"))
	switch tag {
	case fieldPlain:
		return
	case fieldIgnored, fieldRedacted:
		m.dropped = true
	case fieldKey:
		switch {
		case p.class == ReadOnly:
			p.report("In."+path, "is tagged key, and a ReadOnly tool has none")
		case index == nil:
			p.report("In."+path, "is tagged key and stands in a list, a map or behind a pointer; a key's fields are there in every call")
		case !isKeyType(f.Type):
			p.report("In."+path, fmt.Sprintf("is tagged key and is %s; a key is made of strings, integers, booleans and types with a MarshalText", f.Type))
		}
		p.plan.keys = append(p.plan.keys, keyField{path: path, index: index, verbatim: f.Type.Kind() == reflect.String && !f.Type.Implements(textMarshaler)})
	default:
		p.report("In."+path, fmt.Sprintf("is tagged dedup:%q; the tags are key, ignore and redact", string(tag)))
		return
	}
	p.plan.tagged = append(p.plan.tagged, taggedField{path, tag})
}

func (p *planner) shape(t reflect.Type, path string, index []int) *shape {
	if decodesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return p.shape(t.Elem(), path, nil)
	case reflect.Struct:
		return &shape{object: p.object(t, path, index)}
	case reflect.Slice, reflect.Array:
		if elem := p.shape(t.Elem(), path+"[]", nil); elem != nil {
			return &shape{elem: elem, open: '['}
		}
	case reflect.Map:
		if k := t.Key(); k.Kind() == reflect.Chan || k.Kind() == reflect.Struct && !k.Implements(textMarshaler) ||
			k.Kind() == reflect.Float32 || k.Kind() == reflect.Float64 || k.Kind() == reflect.Bool || k.Kind() == reflect.Interface {
			p.report("In."+path, fmt.Sprintf("is %s, which encoding/json cannot read", t))
		}
		if elem := p.shape(t.Elem(), path+"[]", nil); elem != nil {
			return &shape{elem: elem, open: '{'}
		}
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		p.report("In."+path, fmt.Sprintf("is %s, which has no JSON and so no fingerprint", t))
	case reflect.Interface:
		if t.NumMethod() > 0 {
			p.report("In."+path, fmt.Sprintf("is the interface %s, which encoding/json cannot read", t))
		}
	}
	return nil
}

// decodesItself tells whether a type reads its own JSON, so that its fields say
// nothing.
func decodesItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// isNullable tells whether null is a value of a type. encoding/json leaves other
// fields as they were, which would make null and a zero one call.
func isNullable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	default:
		return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
	}
}

func hasOption(options, want string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if option == want {
			return true
		}
	}
	return false
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
