package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/tooldedup/dedup"
)

// decode reads arguments into a pointer to In.
func decode(tool string, args json.RawMessage, in any) error {
	err := json.Unmarshal(args, in)
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mismatch):
		return &ArgumentError{Tool: tool, Field: mismatch.Field, Reason: mismatchReason(mismatch), Err: err}
	default: // a type's own UnmarshalJSON
		return &ArgumentError{Tool: tool, Reason: "cannot be read into " + reflect.TypeOf(in).Elem().String(), Err: err}
	}
}

// mismatchReason tells what was expected and what was given, without the value
// that encoding/json puts behind the word "number".
func mismatchReason(e *json.UnmarshalTypeError) string {
	given, _, _ := strings.Cut(e.Value, " ")
	want := jsonName(e.Type)
	if want == given {
		return "does not fit " + e.Type.String()
	}
	return fmt.Sprintf("must be of type %s and is of type %s", want, given)
}

// jsonName names what a type is in JSON.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonName(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice, reflect.Array:
		return "array"
	default:
		return "object"
	}
}

// encode returns the JSON text of a result, with <, > and & as they are.
func encode(out any) (json.RawMessage, error) {
	if raw, ok := out.(json.RawMessage); ok && raw != nil {
		return raw, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil {
		return nil, &dedup.ResultError{Op: "encode", Err: err}
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
