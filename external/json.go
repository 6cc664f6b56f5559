package external

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/canon"
)

// decode reads stored JSON. Its error names the member at fault, but no value.
func decode[T any](raw json.RawMessage) (value T, err error) {
	err = guarded(func() error { return json.Unmarshal(raw, &value) })
	if err == nil {
		return value, nil
	}
	if name, found := memberAtFault[T](raw, false); found {
		return value, fmt.Errorf("dedup: the stored input or result no longer fits the tool's type at %q", name)
	}
	return value, errors.New("dedup: the stored input or result no longer fits the tool's type")
}

// decodeInput reads a stored input strictly. Another release may have written a member that In
// lacks, and without it the effect would be a different one. The error names the member at fault,
// but no value.
func decodeInput[In any](raw json.RawMessage) (in In, err error) {
	err = guarded(func() error { return json.Unmarshal(raw, &in) })
	if err == nil && fits[In](raw, true) {
		return in, nil
	}
	reason := "cannot be read as the tool's input"
	if err == nil {
		reason = lacking[In](raw, "input")
	} else if name, found := memberAtFault[In](raw, false); found {
		reason = fmt.Sprintf("does not fit the tool's input at %q", name)
	}
	return in, &dedup.InvalidError{What: "call", Field: "in", Reason: reason, Err: err}
}

// lacking returns the reason for JSON with a member that T lacks. what is "input" or "result".
func lacking[T any](raw json.RawMessage, what string) string {
	reason := "has a member that the tool's " + what + " lacks"
	if name, found := memberAtFault[T](raw, true); found {
		reason += fmt.Sprintf(", at or in %q", name)
	}
	return reason
}

// memberAtFault returns the first member of an object that does not fit T when it is read alone.
// The errors of encoding/json name it too, but their text differs between releases of Go and may
// quote the keys of a map. If T is a map, the members' names are values, and memberAtFault returns
// none.
func memberAtFault[T any](raw json.RawMessage, strict bool) (name string, found bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || reflect.TypeFor[T]().Kind() == reflect.Map {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		alone, err := json.Marshal(map[string]json.RawMessage{name: members[name]})
		if err == nil && !fits[T](alone, strict) {
			return name, true
		}
	}
	return "", false
}

// fits reports whether valid JSON can be read as a T; if strict, without a member that T lacks.
func fits[T any](raw json.RawMessage, strict bool) bool {
	return guarded(func() error {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		if strict {
			decoder.DisallowUnknownFields()
		}
		return decoder.Decode(new(T))
	}) == nil
}

// encode encodes a result.
func encode(out any) (json.RawMessage, error) {
	text, err := safely(func() ([]byte, error) { return marshal(out) })
	if err == nil && !utf8.Valid(text) {
		err = errors.New("it is not valid UTF-8")
	}
	if err != nil {
		return nil, fmt.Errorf("dedup: the result cannot be encoded: %w", err)
	}
	return text, nil
}

// marshal encodes a value as package dedup does. It does not escape <, > and &, because models read
// results.
func marshal(value any) ([]byte, error) { return canon.Encode(value, false) }
