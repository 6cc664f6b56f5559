package mcpdedup

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// takeMembers takes the members with the given names out of a JSON object and
// returns the text without them, everything else as it was written. Text that is
// no JSON object is returned as it is: whoever reads it next says what is wrong.
func takeMembers(object json.RawMessage, names ...string) (rest json.RawMessage, members map[string]json.RawMessage, err error) {
	if len(names) == 0 || !json.Valid(object) || !utf8.Valid(object) || !isObject(object) {
		return object, nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(object))
	_, _ = dec.Token() // the brace; no step can fail, as the text is valid
	members = map[string]json.RawMessage{}
	rest = append(make(json.RawMessage, 0, len(object)), '{')
	for dec.More() {
		before := dec.InputOffset()
		token, _ := dec.Token()
		name, _ := token.(string)
		spelled := bytes.TrimLeft(object[before:dec.InputOffset()], ", \t\r\n")
		var value json.RawMessage
		_ = dec.Decode(&value)
		if slices.Contains(names, name) {
			if _, twice := members[name]; twice {
				return nil, nil, &takeError{CodeArgumentsInvalid, "The argument " + name + " is given twice."}
			}
			members[name] = value
			continue
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, spelled...), ':'), value...)
	}
	if len(members) == 0 {
		return object, nil, nil
	}
	return append(rest, '}'), members, nil
}

// isObject reports whether a valid JSON text is an object.
func isObject(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
}
