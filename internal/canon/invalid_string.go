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
	w := stringWalk{seen: make(map[visit]bool)}
	return w.invalid(reflect.ValueOf(value), false)
}

// stringWalk looks for invalid strings where json.Marshal does. Within a type
// that marshals itself it looks at everything, unexported fields too: such
// methods mostly encode the fields of their own value.
type stringWalk struct {
	seen map[visit]bool
}

type visit struct {
	pointer uintptr
	length  int
	kind    reflect.Type
	opaque  bool
}

var (
	rawMessageType    = reflect.TypeFor[json.RawMessage]()
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

func (w *stringWalk) invalid(v reflect.Value, opaque bool) bool {
	if !v.IsValid() || v.Type() == rawMessageType {
		return false
	}
	t := v.Type()
	switch pointer := reflect.PointerTo(t); {
	case t.Kind() == reflect.Interface, t.Kind() == reflect.Pointer:
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
	case reflect.Interface:
		return w.invalid(v.Elem(), opaque)
	case reflect.Pointer:
		return !w.visited(v, 1, opaque) && w.invalid(v.Elem(), opaque)
	case reflect.Map:
		if w.visited(v, v.Len(), opaque) {
			return false
		}
		for entries := v.MapRange(); entries.Next(); {
			if w.invalid(entries.Key(), opaque) || w.invalid(entries.Value(), opaque) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 || t.Kind() == reflect.Slice && w.visited(v, v.Len(), opaque) {
			return false
		}
		for i := range v.Len() {
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

// visited keeps the walk out of circles, which only fields that are not encoded
// can form.
func (w *stringWalk) visited(v reflect.Value, length int, opaque bool) bool {
	at := visit{pointer: v.Pointer(), length: length, kind: v.Type(), opaque: opaque}
	seen := w.seen[at]
	w.seen[at] = true
	return seen
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
