package canon

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

var errNoUTF8 = errors.New("it has a string that is not valid UTF-8; encode binary data as []byte or base64")

// Encode returns the JSON text of a result as encoding/json writes it. It refuses a struct of which
// nothing is written whatever it holds, and a string that is not valid UTF-8, which encoding/json
// would change. With escapeHTML it writes <, > and & as escapes.
func Encode(result any, escapeHTML bool) ([]byte, error) {
	if v := reflect.ValueOf(result); v.IsValid() && v.Kind() == reflect.Struct { // for methods with pointer receivers
		pointer := reflect.New(v.Type())
		pointer.Elem().Set(v)
		result = pointer.Interface()
	}
	return encode(result, escapeHTML)
}

func encode(value any, escapeHTML bool) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(escapeHTML)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if string(text) == "{}" && isHollow(reflect.TypeOf(value)) {
		return nil, &hollowError{reflect.TypeOf(value)}
	}
	// Marshal replaces bytes that are no UTF-8 by U+FFFD: as an escape with
	// encoding/json as it always was, raw with the one built on version 2. The
	// value may also hold that character by right, so it has the last word.
	replaced := bytes.Contains(text, []byte(`\ufffd`)) || bytes.Contains(text, []byte("\ufffd"))
	if replaced && hasInvalidString(value) {
		return nil, errNoUTF8
	}
	return text, nil
}

// hollowError refuses a struct of which nothing is encoded. It names a type and no values.
type hollowError struct{ t reflect.Type }

// Error implements error.
func (e *hollowError) Error() string {
	return fmt.Sprintf("a %s is encoded as {} whatever it holds; export its fields, or hold a pointer to it where its MarshalJSON has a pointer receiver", e.t)
}

// isHollow reports whether t is a struct with fields of which encoding/json writes none.
func isHollow(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.Size() == 0 {
		return false
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && f.Tag.Get("json") != "-" && !(f.Anonymous && f.Type.Kind() == reflect.Struct) {
			return false
		}
	}
	return true
}

var (
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)
