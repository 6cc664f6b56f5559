package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/tooldedup/dedup"
)

// key chooses a call's key: see the package documentation. Empty means that
// there is none.
func (t *definition) key(inv Invocation, in reflect.Value) (string, error) {
	key, err := t.plan.keyOf(t.Name, in)
	switch {
	case err != nil || key != "":
		return key, err
	case inv.Key != "":
		return inv.Key, nil
	case inv.Session != "" && inv.CallID != "":
		return dedup.KeyFromToolCall(inv.Session, inv.Turn, inv.CallID)
	default:
		return "", nil
	}
}

// keyOf returns the key that arguments hold, empty if all its fields are.
func (p *argsPlan) keyOf(tool string, in reflect.Value) (string, error) {
	if len(p.keys) == 0 {
		return "", nil
	}
	parts := make([]string, len(p.keys))
	empty, firstEmpty := 0, ""
	for i, k := range p.keys {
		part, err := keyPart(in.FieldByIndex(k.index))
		if err != nil {
			bad := &ArgumentError{Tool: tool, Field: k.path, Reason: "cannot be part of a key"}
			if !p.secrets() {
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

// keyPart returns the text of a value of a type that [isKeyType] takes.
func keyPart(v reflect.Value) (string, error) {
	if v.Type().Implements(textMarshaler) {
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		return string(text), err
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10), nil
	default:
		return "", fmt.Errorf("type %s", v.Type())
	}
}

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

// isKeyType tells whether values of a type can be part of a key: those that have
// one text, whatever the caller's spelling. Floats and json.Number have not.
func isKeyType(t reflect.Type) bool {
	if t.Implements(textMarshaler) {
		return t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface
	}
	if t == reflect.TypeFor[json.Number]() {
		return false
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	default:
		return false
	}
}
