package canon

import (
	"fmt"
	"reflect"
	"strings"
)

// hollowError refuses a value whose type IsHollow. It names the type and no values.
type hollowError struct{ t reflect.Type }

// Error implements error.
func (e *hollowError) Error() string {
	return fmt.Sprintf("a %s is encoded as {} whatever it holds; export its fields, or hold a pointer to it if its MarshalJSON has a pointer receiver", e.t)
}

// IsHollow reports whether encoding/json writes {} for every value of a type: it is a struct, or a
// pointer to one, that has fields of which none is ever written and no method that writes JSON or
// text.
func IsHollow(t reflect.Type) bool {
	if t == nil {
		return false
	}
	called := t // the type whose methods encoding/json calls: the pointer type, if there is one
	for ; t.Kind() == reflect.Pointer; t = t.Elem() {
		called = t
	}
	return t.Kind() == reflect.Struct && t.NumField() > 0 && !WritesJSON(called) && !writesText(called) && writesNoField(t, map[reflect.Type]bool{})
}

// writesNoField reports whether encoding/json never writes a field of a struct type. It writes the
// fields of an embedded struct as the outer one's, also where the embedded type is not exported.
func writesNoField(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return true
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		held := f.Type
		if held.Kind() == reflect.Pointer {
			held = held.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && held.Kind() == reflect.Struct:
			if !writesNoField(held, seen) {
				return false
			}
		case f.IsExported():
			return false
		}
	}
	return true
}
