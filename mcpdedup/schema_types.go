package mcpdedup

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// typeSchemas makes the schemas of Go types, as encoding/json reads and writes
// them: everything that it writes of a result fits the result's schema, the zero
// value too, and whatever fits an argument's schema can be read.
type typeSchemas struct {
	given map[reflect.Type]*jsonschema.Schema
	// results makes schemas of what is written, and open ones: a replayed result may
	// have been recorded by another version of its type, so members may be missing
	// and others may be there. Otherwise the schemas are of what is read.
	results bool
	// within are the types that are being described: they may hold themselves.
	within []reflect.Type
}

// of returns the schema of a type. Null is allowed where it is a value of the type.
func (s *typeSchemas) of(t reflect.Type) (*jsonschema.Schema, error) {
	if slices.Contains(s.within, t) {
		return nil, fmt.Errorf("has no JSON schema: %s holds itself; Options.TypeSchemas can give a type one", t)
	}
	s.within = append(s.within, t)
	defer func() { s.within = s.within[:len(s.within)-1] }()

	if given := s.given[t]; given != nil {
		return given.CloneSchemas(), nil
	}
	if t.Kind() == reflect.Pointer {
		return nullable(s.of(t.Elem()))
	}
	if own := s.ownText(t); own != nil {
		return own, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}, nil
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}, nil
	case reflect.Float32, reflect.Float64:
		return &jsonschema.Schema{Type: "number"}, nil
	case reflect.Interface:
		return anything(), nil
	case reflect.Slice, reflect.Array:
		return s.list(t)
	case reflect.Map:
		return s.dictionary(t)
	case reflect.Struct:
		return s.object(t)
	default:
		return integer(t)
	}
}

// anything is every type by name: the SDK writes the empty schema as true, because
// of which the TypeScript SDK refuses the whole list of tools.
func anything() *jsonschema.Schema {
	return &jsonschema.Schema{Types: []string{"null", "boolean", "object", "array", "number", "string"}}
}

// nullable allows null beside what a schema allows.
func nullable(s *jsonschema.Schema, err error) (*jsonschema.Schema, error) {
	switch {
	case err != nil:
		return nil, err
	case s.Enum != nil, s.Const != nil, s.Type == "" && s.Types == nil: // a given one
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "null"}, s}}, nil
	case s.Type != "":
		s.Type, s.Types = "", []string{"null", s.Type}
	case !slices.Contains(s.Types, "null"):
		s.Types = append([]string{"null"}, s.Types...)
	}
	return s, nil
}

// ownText returns the schema of a type that reads or writes its own JSON or text,
// nil if encoding/json does it by the type's kind.
func (s *typeSchemas) ownText(t reflect.Type) *jsonschema.Schema {
	pointer := reflect.PointerTo(t)
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	case t.Kind() == reflect.Interface:
		return nil
	case !s.results && pointer.Implements(jsonUnmarshaler):
		return anything()
	case !s.results && pointer.Implements(textUnmarshaler):
		return &jsonschema.Schema{Type: "string"}
	case !s.results, !writesItself(t) && !writesItself(pointer):
		return nil
	case t.Implements(textMarshaler) && !pointer.Implements(jsonMarshaler):
		return &jsonschema.Schema{Type: "string"}
	default:
		// Also a method of the pointer alone: it is called where the value can be
		// addressed, and elsewhere the value is written by its kind.
		return anything()
	}
}

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func writesItself(t reflect.Type) bool {
	return t.Implements(jsonMarshaler) || t.Implements(textMarshaler)
}

func (s *typeSchemas) list(t reflect.Type) (*jsonschema.Schema, error) {
	elem := t.Elem()
	if t.Kind() == reflect.Slice && elem.Kind() == reflect.Uint8 && (!s.results || !writesItself(reflect.PointerTo(elem))) {
		return nullable(&jsonschema.Schema{Type: "string", ContentEncoding: "base64"}, nil)
	}
	items, err := s.of(elem)
	if err != nil {
		return nil, err
	}
	if t.Kind() == reflect.Slice {
		return nullable(&jsonschema.Schema{Type: "array", Items: items}, nil)
	}
	return &jsonschema.Schema{Type: "array", Items: items, MinItems: jsonschema.Ptr(t.Len()), MaxItems: jsonschema.Ptr(t.Len())}, nil
}

func (s *typeSchemas) dictionary(t reflect.Type) (*jsonschema.Schema, error) {
	own := t.Key().Implements(textMarshaler)
	if !s.results {
		own = reflect.PointerTo(t.Key()).Implements(textUnmarshaler)
	}
	if !own && t.Key().Kind() != reflect.String {
		if _, err := integer(t.Key()); err != nil {
			return nil, err
		}
	}
	values, err := s.of(t.Elem())
	if err != nil {
		return nil, err
	}
	return nullable(&jsonschema.Schema{Type: "object", AdditionalProperties: values}, nil)
}

// integer returns the schema of an integer type. Bounds that a float64 does not
// hold are left out.
func integer(t reflect.Type) (*jsonschema.Schema, error) {
	s := &jsonschema.Schema{Type: "integer"}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
	case reflect.Int8, reflect.Int16, reflect.Int32:
		s.Minimum, s.Maximum = jsonschema.Ptr(-math.Exp2(float64(t.Bits()-1))), jsonschema.Ptr(math.Exp2(float64(t.Bits()-1))-1)
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		s.Minimum = jsonschema.Ptr(0.0)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		s.Minimum, s.Maximum = jsonschema.Ptr(0.0), jsonschema.Ptr(math.Exp2(float64(t.Bits()))-1)
	default:
		return nil, fmt.Errorf("has no JSON schema: %s; Options.TypeSchemas can give a type one", t)
	}
	return s, nil
}
