package mcpdedup

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// typeSchemas returns schemas for the types that a type is made of and that
// write their own JSON. Left to itself the inference describes how they look in
// Go: a UUID is a list of 16 numbers to it.
func typeSchemas(t reflect.Type, given map[reflect.Type]*jsonschema.Schema) (map[reflect.Type]*jsonschema.Schema, error) {
	w := &typeWalk{
		schemas: map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[time.Time](): {Type: "string", Format: "date-time"}},
		seen:    map[reflect.Type]bool{},
	}
	maps.Copy(w.schemas, given)
	return w.schemas, w.walk(t)
}

type typeWalk struct {
	schemas map[reflect.Type]*jsonschema.Schema
	seen    map[reflect.Type]bool // types may hold themselves
}

func (w *typeWalk) walk(t reflect.Type) error {
	if w.seen[t] || w.schemas[t] != nil {
		return nil
	}
	w.seen[t] = true
	switch {
	case t.Kind() == reflect.Pointer:
		return w.walk(t.Elem())
	case t.Kind() == reflect.Interface, hasMethods(t, reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler]()):
		// Every type by name: the empty schema is written as true, because of which
		// the TypeScript SDK refuses the whole list of tools.
		w.schemas[t] = &jsonschema.Schema{Types: []string{"null", "boolean", "object", "array", "number", "string"}}
		return nil
	case hasMethods(t, reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()):
		w.schemas[t] = &jsonschema.Schema{Type: "string"}
		return nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		w.schemas[t] = &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return w.walk(t.Elem())
	case reflect.Struct:
		return w.fields(t)
	}
	return nil
}

func (w *typeWalk) fields(t reflect.Type) error {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		for option := range strings.SplitSeq(options, ",") {
			if option == "string" {
				return fmt.Errorf("has the field %s with the option \"string\", which its schema would not tell; make it a string", name)
			}
		}
		if err := w.walk(f.Type); err != nil {
			return err
		}
	}
	return nil
}

// hasMethods tells whether values of a type, or pointers to such, have the
// methods of one of the interfaces.
func hasMethods(t reflect.Type, interfaces ...reflect.Type) bool {
	for _, i := range interfaces {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}
