package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// decode reads a call's arguments: one JSON object with every field of In and
// no other, names spelled exactly.
func decode[In any](args json.RawMessage) (In, error) {
	var in In
	var given map[string]json.RawMessage
	if err := json.Unmarshal(args, &given); err != nil {
		return in, err
	}
	if given == nil {
		return in, errors.New("expected an object, got null")
	}
	if err := checkNames(given, reflect.TypeFor[In]()); err != nil {
		return in, err
	}
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return in, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return in, errors.New("text after the object")
	}
	return in, nil
}

// checkNames is what encoding/json leaves out: a field that is missing, null,
// or spelled with other capitals.
func checkNames(given map[string]json.RawMessage, in reflect.Type) error {
	known := map[string]bool{}
	for field := range in.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = true
		value, ok := given[name]
		if !ok {
			return fmt.Errorf("%s is missing", name)
		}
		if string(value) == "null" {
			return fmt.Errorf("%s is null", name)
		}
	}
	for name := range given {
		if !known[name] {
			return fmt.Errorf("unknown argument %q", name)
		}
	}
	return nil
}

// Marshal is json.Marshal without the escapes for HTML: <, > and & are stored
// and answered as they were given.
func Marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
