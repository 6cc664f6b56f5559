package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
)

var errNoUTF8 = errors.New("it has a string that is not valid UTF-8; encode binary data as []byte or base64")

// IsOwn reports whether err is an error of Encode and not of encoding/json or of a method of the
// value. Its text has no value.
func IsOwn(err error) bool {
	return errors.Is(err, errNoUTF8) || errors.As(err, new(*hollowError))
}

// Encode returns the JSON text of a result as encoding/json writes it. It refuses what no text can
// show: a value that refers to itself, a struct that is {} whatever it holds, and a string that is
// not valid UTF-8, which encoding/json would change. With escapeHTML it writes <, > and & as
// escapes.
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
	if string(text) == "{}" && IsHollow(reflect.TypeOf(value)) {
		return nil, &hollowError{reflect.TypeOf(value)}
	}
	// encoding/json replaces invalid UTF-8 by U+FFFD, as an escape up to Go 1.26 and as the
	// character since. The value may also hold that character by right, so the value itself is
	// looked at.
	replaced := bytes.Contains(text, []byte(`\ufffd`)) || bytes.Contains(text, []byte("\ufffd"))
	if replaced && hasInvalidString(value) {
		return nil, errNoUTF8
	}
	return text, nil
}
