package canon

import (
	"encoding"
	"encoding/json"
	"reflect"
	"unicode/utf8"
)

// hasInvalidString says whether json.Marshal met a string in value that is not
// valid UTF-8.
func hasInvalidString(value any) bool {
	return stringWalk{}.invalid(reflect.ValueOf(value), false)
}

// stringWalk looks for invalid strings where json.Marshal does. Within a type
// that marshals itself, which is opaque, it looks at everything, unexported fields too:
// such methods mostly encode the fields of their own value.
//
// It knows where it has been. Only fields that are not encoded can close a circle.
type stringWalk map[stringVisit]bool

// stringVisit names a pointer, a map or a slice that a walk has come to.
type stringVisit struct {
	pointer uintptr
	length  int
	kind    reflect.Type
	opaque  bool
}

var rawMessageType = reflect.TypeFor[json.RawMessage]()

func (w stringWalk) invalid(v reflect.Value, opaque bool) bool {
	if !v.IsValid() || v.Type() == rawMessageType {
		return false
	}
	t := v.Type()
	switch kind := t.Kind(); kind {
	case reflect.Interface:
		return w.invalid(v.Elem(), opaque)
	case reflect.Pointer, reflect.Map, reflect.Slice:
		at := stringVisit{pointer: v.Pointer(), kind: t, opaque: opaque}
		if kind != reflect.Pointer {
			at.length = v.Len()
		}
		if w[at] {
			return false
		}
		w[at] = true
		if kind == reflect.Pointer {
			return w.invalid(v.Elem(), opaque)
		}
	}
	switch pointer := reflect.PointerTo(t); {
	case pointer.Implements(marshalerType):
		opaque = true
	case pointer.Implements(textMarshalerType):
		if invalidText(v) {
			return true
		}
		opaque = true
	}

	switch t.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String())
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if w.invalid(entries.Key(), opaque) || w.invalid(entries.Value(), opaque) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && t.Elem().Kind() != reflect.Uint8; i++ {
			if w.invalid(v.Index(i), opaque) {
				return true
			}
		}
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			encoded := (field.IsExported() || field.Anonymous) && field.Tag.Get("json") != "-"
			if (encoded || opaque) && w.invalid(v.Field(i), opaque) {
				return true
			}
		}
	}
	return false
}

// invalidText asks a value that marshals itself to text. A nil pointer never
// gets here, and an unexported field cannot be asked.
func invalidText(v reflect.Value) bool {
	if !v.CanInterface() {
		return false
	}
	m, ok := v.Interface().(encoding.TextMarshaler)
	if !ok && v.CanAddr() {
		m, ok = v.Addr().Interface().(encoding.TextMarshaler)
	}
	if !ok {
		return false
	}
	text, err := m.MarshalText()
	return err == nil && !utf8.Valid(text)
}
