package canon

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// structFields is what encoding/json makes of a struct's fields, those of embedded
// structs among them.
type structFields struct {
	encoded []jsonField
	// hidden is the first unexported field that holds something, nil for none.
	// hollow is the struct itself or an embedded one that has nothing else.
	hidden, hollow *hiddenField
	// clash are two fields of one name, of which at least one is left out.
	clash []jsonField
}

type jsonField struct {
	name   string // in JSON
	path   string // in Go, with a dot before each name
	index  []int
	tagged bool
	t      reflect.Type
	// behindPointer says that it is reached through an embedded pointer, so that
	// it can be addressed.
	behindPointer bool
}

type hiddenField struct {
	path  string
	owner reflect.Type
}

// embeddedStruct is one whose fields are encoded as if they were the outer one's.
type embeddedStruct struct {
	jsonField
	twice bool // embedded more than once at this depth: all of its names clash
}

// knownFields are the *structFields of each reflect.Type that was looked at.
var knownFields sync.Map

// fieldsOf returns what must not be changed.
func fieldsOf(t reflect.Type) *structFields {
	if known, ok := knownFields.Load(t); ok {
		return known.(*structFields)
	}
	known, _ := knownFields.LoadOrStore(t, newStructFields(t))
	return known.(*structFields)
}

// newStructFields follows encoding/json: breadth first, a struct type once.
func newStructFields(t reflect.Type) *structFields {
	s := &structFields{}
	visited := make(map[reflect.Type]bool)
	for level := []embeddedStruct{{jsonField: jsonField{t: t}}}; len(level) > 0; {
		var next []embeddedStruct
		for i := range level {
			if e := &level[i]; !visited[e.t] {
				visited[e.t] = true
				next = s.add(e, next)
			}
		}
		level = next
	}
	s.settleNames()
	if reflect.PointerTo(t).Implements(protoMessageType) {
		s.hidden = nil
	}
	return s
}

// protoMessageType is implemented by what protoc generates: its unexported fields
// are bookkeeping beside exported ones.
var protoMessageType = reflect.TypeFor[interface{ ProtoMessage() }]()

func (s *structFields) add(e *embeddedStruct, next []embeddedStruct) []embeddedStruct {
	var hidden *hiddenField
	before := len(s.encoded) + len(next)
	for i := range e.t.NumField() {
		f := e.t.Field(i)
		t := f.Type
		if t.Name() == "" && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		structure := f.Anonymous && t.Kind() == reflect.Struct
		if leftOut(&f) {
			continue
		}
		path := e.path + "." + f.Name
		if !f.IsExported() && !structure {
			if hidden == nil {
				hidden = &hiddenField{path: path, owner: e.t}
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		field := jsonField{
			name: name, path: path, index: append(slices.Clone(e.index), i), tagged: name != "", t: f.Type,
			behindPointer: e.behindPointer,
		}
		if structure && !field.tagged {
			field.behindPointer = e.behindPointer || f.Type.Kind() == reflect.Pointer
			field.t = t
			next = embed(next, field, e.twice)
			continue
		}
		field.name = cmp.Or(name, f.Name)
		s.encoded = append(s.encoded, field)
		if e.twice {
			s.encoded = append(s.encoded, field)
		}
	}
	if hidden != nil {
		s.hidden = cmp.Or(s.hidden, hidden)
		if len(s.encoded)+len(next) == before {
			s.hollow = cmp.Or(s.hollow, hidden)
		}
	}
	return next
}

func embed(next []embeddedStruct, f jsonField, twice bool) []embeddedStruct {
	for i := range next {
		if next[i].t == f.t {
			next[i].twice = true
			return next
		}
	}
	return append(next, embeddedStruct{f, twice})
}

// settleNames keeps of each name the field that encoding/json writes. A deeper one
// is left out as Go's own selectors do; one at the same depth by mistake.
func (s *structFields) settleNames() {
	byName := slices.Clone(s.encoded)
	slices.SortStableFunc(byName, func(a, b jsonField) int {
		return cmp.Or(strings.Compare(a.name, b.name), len(a.index)-len(b.index))
	})
	kept := byName[:0]
	for i := range byName {
		f := byName[i]
		if len(kept) == 0 || kept[len(kept)-1].name != f.name {
			kept = append(kept, f)
			continue
		}
		if first := kept[len(kept)-1]; len(first.index) == len(f.index) && s.clash == nil {
			s.clash = []jsonField{first, f}
		}
	}
	s.encoded = kept
}

// loss says what every value of t loses.
func (s *structFields) loss(t reflect.Type, strict bool) *loss {
	switch {
	case s.hollow != nil && s.hollow.owner == t:
		return &loss{what: fmt.Sprintf("a %s, is encoded as {} whatever it holds", t)}
	case s.hollow != nil:
		return &loss{what: fmt.Sprintf("a %s, is encoded without anything of its embedded %s", t, s.hollow.owner)}
	case s.clash != nil:
		return &loss{what: fmt.Sprintf("a %s, is encoded without %s or %s: both have the name %q", t, s.clash[0].path[1:], s.clash[1].path[1:], s.clash[0].name)}
	case s.hidden != nil && strict:
		return &loss{what: fmt.Sprintf("a %s, is encoded without %s, which is not exported; export it, or tag it json:\"-\" where it does not count", t, s.hidden.path[1:])}
	default:
		return nil
	}
}

// leftOut says whether a field is to be left out, or holds nothing that could be.
func leftOut(f *reflect.StructField) bool {
	return f.Tag.Get("json") == "-" || f.Name == "_" || (f.Anonymous || !f.IsExported()) && holdsNothing(f.Type)
}

// holdsNothing says whether values of a type hold nothing that a caller means:
// locks, functions, channels and what has no size.
func holdsNothing(t reflect.Type) bool {
	if t.Size() == 0 {
		return true
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan:
		return true
	case reflect.Pointer:
		return isLock(t.Elem())
	case reflect.Array:
		return holdsNothing(t.Elem())
	case reflect.Struct:
		if isLock(t) {
			return true
		}
		for i := range t.NumField() {
			if !holdsNothing(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// isLock says whether a type is one of package sync's, which hold no data but Map.
func isLock(t reflect.Type) bool { return t.PkgPath() == "sync" && t.Name() != "Map" }
