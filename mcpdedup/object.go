package mcpdedup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tooldedup/dedup/internal/door"
)

// object is a JSON object that keeps the exact bytes of its names and values. Decoding and encoding
// a schema could lose digits of a number, the order of members, and unknown keywords. Space between
// members is dropped.
type object []member

type member struct {
	name           string
	spelled, value []byte // the exact texts of the name and the value
}

// readObject reads a valid JSON object.
func readObject(text []byte) (o object) {
	dec := json.NewDecoder(bytes.NewReader(text))
	_, _ = dec.Token() // the brace; no step can fail, because the text is valid
	for dec.More() {
		from := dec.InputOffset()
		token, _ := dec.Token()
		m := member{spelled: bytes.TrimLeft(text[from:dec.InputOffset()], ", \t\r\n")}
		m.name, _ = token.(string)
		_ = dec.Decode((*json.RawMessage)(&m.value))
		o = append(o, m)
	}
	return o
}

func (o object) text() json.RawMessage {
	text := []byte("{")
	for i, m := range o {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, m.spelled...), ':'), m.value...)
	}
	return append(text, '}')
}

// value returns the text of a member, nil if it is missing. Of two members with one name, JSON
// readers take the last.
func (o object) value(name string) []byte {
	for _, m := range slices.Backward(o) {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// set sets a member's value, or adds the member. Its name must need no escapes.
func (o *object) set(name string, value []byte) {
	for i, m := range slices.Backward(*o) {
		if m.name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{name, []byte(`"` + name + `"`), value})
}

// object returns the object in a member of a schema, an empty one if the member is missing or null.
func (o object) object(name string) (object, error) {
	switch value := o.value(name); {
	case value == nil, string(value) == "null":
		return nil, nil
	case !isObject(value):
		return nil, fmt.Errorf("mcpdedup: %s in a tool's schema is no object", name)
	default:
		return readObject(value), nil
	}
}

// takeMembers removes the members with the given names from a JSON object. It returns the text
// without them, and the members. Text that is not a JSON object is returned unchanged: the next
// reader reports it.
func takeMembers(text json.RawMessage, names ...string) (rest json.RawMessage, taken map[string]json.RawMessage, err error) {
	if len(names) == 0 || !json.Valid(text) || !utf8.Valid(text) || !isObject(text) {
		return text, nil, nil
	}
	var left object
	for _, m := range readObject(text) {
		switch _, twice := taken[m.name]; {
		case !slices.Contains(names, m.name):
			left = append(left, m)
		case twice:
			return nil, nil, notMade(door.ArgumentsInvalid, "The argument "+m.name+" is given twice.", nil)
		case taken == nil:
			taken = map[string]json.RawMessage{m.name: m.value}
		default:
			taken[m.name] = m.value
		}
	}
	if taken == nil {
		return text, nil, nil
	}
	return left.text(), taken, nil
}

// isObject reports whether a valid JSON text is an object.
func isObject(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
}
