package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/tooldedup/dedup"
)

// keyOf returns the key that the fields tagged key hold. It is empty if all these fields are empty.
func (p *plan) keyOf(tool string, in reflect.Value) (string, error) {
	if len(p.keys) == 0 {
		return "", nil
	}
	parts := make([]string, len(p.keys))
	empty, firstEmpty := 0, ""
	for i, k := range p.keys {
		part, err := keyPart(in.FieldByIndex(k.index))
		if err != nil {
			bad := &ArgumentError{Tool: tool, Field: k.path, Reason: "cannot be part of a key"}
			if len(p.redacted) == 0 {
				bad.Err = err
			}
			return "", bad
		}
		if parts[i] = part; part == "" {
			if empty++; empty == 1 {
				firstEmpty = k.path
			}
		}
	}
	switch {
	case empty == len(parts):
		return "", nil
	case len(parts) == 1 && p.keys[0].verbatim:
		return parts[0], nil
	case empty > 0:
		return "", &ArgumentError{Tool: tool, Field: firstEmpty, Reason: "is empty, and is the key together with others"}
	default:
		return dedup.KeyFromIntent(parts...)
	}
}

// keyPart returns the text of a value. The value's type passed [isKeyType].
func keyPart(v reflect.Value) (string, error) {
	if at, ok := v.Interface().(time.Time); ok {
		return at.UTC().Format(time.RFC3339Nano), nil // MarshalText would keep the caller's offset
	}
	if v.Type().Implements(textMarshaler) {
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		return string(text), err
	}
	switch {
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	default:
		return "", fmt.Errorf("type %s", v.Type())
	}
}

// keyText returns the JSON text that stands for a field of the key in the comparison. All spellings
// of one value have one text. A value that cannot be read, or has no text, is returned unchanged:
// the call is refused later.
func keyText(t reflect.Type, raw []byte) []byte {
	v := reflect.New(t)
	if json.Unmarshal(raw, v.Interface()) != nil {
		return raw
	}
	part, err := keyPart(v.Elem())
	if err != nil {
		return raw
	}
	text, err := json.Marshal(part)
	if err != nil {
		return raw
	}
	return text
}

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

// isKeyType reports whether values of a type can be part of a key: each value must have one text,
// however the caller spells it. Floats and json.Number do not qualify. A type's MarshalText is
// trusted to write one text. A time.Time counts by its instant.
func isKeyType(t reflect.Type) bool {
	if t.Implements(textMarshaler) {
		return t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface
	}
	_, err := keyPart(reflect.New(t).Elem())
	return err == nil && t != reflect.TypeFor[json.Number]()
}
