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
	name  string // in JSON
	path  string // in Go, with a dot before each name
	index []int
	t     reflect.Type
	// behindPointer says that it is reached through an embedded pointer, so that
	// it can be addressed.
	behindPointer bool
}

type hiddenField struct {
	path  string
	owner reflect.Type
}

// knownFields are the *structFields of each reflect.Type that was looked at.
var knownFields sync.Map

// fieldsOf returns what must not be changed.
func fieldsOf(t reflect.Type) *structFields {
	if known, ok := knownFields.Load(t); ok {
		return known.(*structFields)
	}
	s := &structFields{}
	s.add(jsonField{t: t}, nil)
	s.settleNames()
	if reflect.PointerTo(t).Implements(protoMessageType) {
		s.hidden = nil
	}
	known, _ := knownFields.LoadOrStore(t, s)
	return known.(*structFields)
}

// protoMessageType is implemented by what protoc generates: its unexported fields
// are bookkeeping beside exported ones.
var protoMessageType = reflect.TypeFor[interface{ ProtoMessage() }]()

// add adds the fields of a struct, which is the whole value or embedded in it. Around are
// the structs that it is embedded in.
func (s *structFields) add(e jsonField, around []reflect.Type) {
	if slices.Contains(around, e.t) { // all of its names are taken
		return
	}
	var embedded []jsonField
	var hidden *hiddenField
	before := len(s.encoded)
	for i := range e.t.NumField() {
		f := e.t.Field(i)
		if leftOut(&f) {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		field := jsonField{
			name: cmp.Or(name, f.Name), path: e.path + "." + f.Name, index: append(slices.Clone(e.index), i), t: f.Type,
			behindPointer: e.behindPointer,
		}
		t := f.Type
		if t.Name() == "" && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		structure := f.Anonymous && t.Kind() == reflect.Struct
		switch {
		case structure && name == "":
			field.behindPointer = e.behindPointer || f.Type.Kind() == reflect.Pointer
			field.t = t
			embedded = append(embedded, field)
		case structure || f.IsExported():
			s.encoded = append(s.encoded, field)
		case hidden == nil:
			hidden = &hiddenField{path: field.path, owner: e.t}
		}
	}
	if hidden != nil {
		s.hidden = cmp.Or(s.hidden, hidden)
		if len(s.encoded) == before && len(embedded) == 0 {
			s.hollow = cmp.Or(s.hollow, hidden)
		}
	}
	for _, field := range embedded {
		s.add(field, append(around, e.t))
	}
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
