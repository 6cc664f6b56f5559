package tool

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/tooldedup/dedup"
)

// decode reads arguments, which the plan has found fit, into a pointer to In.
// What still goes wrong is a type's own reading of its JSON.
func (p *argsPlan) decode(tool string, args json.RawMessage, in any) error {
	err := json.Unmarshal(args, in)
	if err == nil {
		return nil
	}
	bad := &ArgumentError{Tool: tool, Reason: "cannot be read"}
	if m := p.culprit(args, reflect.TypeOf(in).Elem()); m != nil {
		bad.Field, bad.Reason = m.name, "cannot be read as "+m.value.typ.String()
	}
	if !p.secrets() {
		bad.Err = err
	}
	return bad
}

// culprit returns the member of the arguments that cannot be read by itself. No
// error of a type's own says where it stands.
func (p *argsPlan) culprit(args json.RawMessage, in reflect.Type) *member {
	var members map[string]json.RawMessage
	if json.Unmarshal(args, &members) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		alone, err := json.Marshal(map[string]json.RawMessage{name: members[name]})
		if err == nil && json.Unmarshal(alone, reflect.New(in).Interface()) != nil {
			return p.root.members[name]
		}
	}
	return nil
}

// encode returns the JSON text of a result, with <, > and & as they are. A
// [json.RawMessage] is one already.
func encode(out any) (json.RawMessage, error) {
	if raw, ok := out.(json.RawMessage); ok && raw != nil {
		if !json.Valid(raw) {
			return nil, &dedup.InvalidError{What: "result", Reason: "is not valid JSON"}
		}
		return raw, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil {
		return nil, &dedup.InvalidError{What: "result", Reason: "cannot be encoded", Err: err}
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
