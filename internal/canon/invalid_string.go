package canon

import (
	"encoding"
	"encoding/json"
	"reflect"
	"sync"
	"unicode/utf8"
)

// hasInvalidString reports whether json.Marshal met a string in value that is not valid UTF-8.
func hasInvalidString(value any) bool {
	return stringWalk{}.invalid(reflect.ValueOf(value), false)
}

// stringWalk looks for invalid strings where json.Marshal does. Within a type that has a marshal
// method, which is opaque, it looks at everything, unexported fields too: such methods mostly
// encode the fields of the value.
//
// It holds where it has been. Only fields that are not encoded can close a cycle.
type stringWalk map[stringVisit]bool

// stringVisit names a pointer, a map or a slice that a walk has come to.
type stringVisit struct {
	pointer uintptr
	length  int
	kind    reflect.Type
	opaque  bool
}

var (
	rawMessageType    = reflect.TypeFor[json.RawMessage]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
	textAppenderType  = reflect.TypeFor[encoding.TextAppender]()
)

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
	case WritesJSON(pointer):
		opaque = true
	case writesText(pointer):
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

// invalidText reports whether the method that encoding/json calls writes a value as text that is
// not valid UTF-8. A nil pointer never gets here, and the methods of an unexported field cannot be
// called.
func invalidText(v reflect.Value) bool {
	if !v.CanInterface() {
		return false
	}
	value := v.Interface()
	if v.CanAddr() {
		value = v.Addr().Interface()
	}
	var text []byte
	var err error
	if m, ok := value.(encoding.TextAppender); ok && callsAppendText() {
		text, err = m.AppendText(nil)
	} else if m, ok := value.(encoding.TextMarshaler); ok {
		text, err = m.MarshalText()
	}
	return err == nil && !utf8.Valid(text)
}

// writesText reports whether encoding/json writes a type, which has no method that writes JSON, by
// a method that writes text.
func writesText(t reflect.Type) bool {
	return t.Implements(textMarshalerType) || t.Implements(textAppenderType) && callsAppendText()
}

// callsAppendText reports whether encoding/json calls AppendText, as it does since Go 1.27.
var callsAppendText = sync.OnceValue(func() bool {
	text, err := json.Marshal(appended{})
	return err == nil && string(text) != "{}"
})

type appended struct{}

// AppendText implements encoding.TextAppender.
func (appended) AppendText(b []byte) ([]byte, error) { return append(b, 'x'), nil }
