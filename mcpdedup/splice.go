package mcpdedup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tooldedup/dedup/tool"
)

// The arguments that are added to tools.
const (
	// KeyArgument is the argument in which a model sends the key of its call, unless
	// Options.KeyArgument gives it another name.
	KeyArgument = "idempotencyKey"
	// ConfirmArgument is the argument by which a model says that a call which
	// equals an earlier one is meant.
	ConfirmArgument = "confirm"
)

// The descriptions are read by models. They say when to mint a key and when not:
// on both a model has to decide.
const (
	requiredKeyText = "Names this one action, so that it is carried out only once. " +
		"For a new action make up a new random value, such as a UUID, even if the other arguments equal an earlier call's. " +
		"For a retry of the same action, after an error, a timeout or a lost answer, send exactly the same value and the same arguments again."
	optionalKeyText = "Optional. " + requiredKeyText
	confirmText     = "Send true only if a call was answered with a notice that an equal call was made before, and the same action is meant a second time."
)

// spliced says which arguments a tool gets beside its own.
type spliced struct {
	keyArgument string // the argument that holds the key, empty if none does
	ownKey      bool   // it is one of the tool's own
	keyRequired bool
	confirm     bool
}

func spliceFor(info tool.Info, opts *Options) spliced {
	s := spliced{
		keyRequired: info.Class.NeedsKey(),
		confirm:     info.Lookalikes.Action == tool.Refuse,
	}
	if info.Class.Writes() && !info.KeyInArguments() && !opts.KeysInMeta {
		s.keyArgument = opts.KeyArgument
	}
	return s
}

// addedArgument is an argument as a schema shows it.
type addedArgument struct {
	name     string
	required bool
	schema   *jsonschema.Schema
}

func (s spliced) arguments() (all []addedArgument) {
	if s.keyArgument != "" && !s.ownKey {
		text := optionalKeyText
		if s.keyRequired {
			text = requiredKeyText
		}
		all = append(all, addedArgument{s.keyArgument, s.keyRequired, &jsonschema.Schema{
			Type: "string", Description: text, MinLength: jsonschema.Ptr(1), MaxLength: jsonschema.Ptr(maxKeyLength),
		}})
	}
	if s.confirm {
		all = append(all, addedArgument{ConfirmArgument, false, &jsonschema.Schema{Type: "boolean", Description: confirmText}})
	}
	return all
}

// splice adds the arguments to the text of an object's schema and returns the
// names of those that the tool has itself. Every other byte of the text stays as
// it is: decoded and encoded again, a schema may lose digits of a number, the
// order of its members and keywords that the decoder does not know.
func (s spliced) splice(schema json.RawMessage) (_ json.RawMessage, taken []string, err error) {
	for _, a := range s.arguments() {
		properties, err := container(schema, "properties", "{}")
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(membersOf(properties), func(m memberText) bool { return m.name == a.name }) {
			taken = append(taken, a.name)
			continue
		}
		text, err := json.Marshal(a.schema)
		if err != nil {
			return nil, nil, err
		}
		schema = setMember(schema, "properties", appendItem(properties, named(a.name, text)))
		if !a.required {
			continue
		}
		required, err := container(schema, "required", "[]")
		if err != nil {
			return nil, nil, err
		}
		schema = setMember(schema, "required", appendItem(required, quoted(a.name)))
	}
	return schema, taken, nil
}

// container returns the value of a schema's member, or an empty one where it is
// missing or null.
func container(schema []byte, name, empty string) ([]byte, error) {
	value := []byte(empty)
	for _, m := range membersOf(schema) {
		if m.name == name { // of two with one name, readers take the last
			value = schema[m.from:m.to]
		}
	}
	switch {
	case string(value) == "null":
		return []byte(empty), nil
	case value[0] != empty[0]:
		return nil, fmt.Errorf("mcpdedup: %s in a tool's schema is not of the form %s", name, empty)
	default:
		return value, nil
	}
}

// setMember puts a value in place of the member's, or at the end of the object.
func setMember(object []byte, name string, value []byte) []byte {
	for _, m := range slices.Backward(membersOf(object)) {
		if m.name == name {
			return slices.Concat(object[:m.from], value, object[m.to:])
		}
	}
	return appendItem(object, named(name, value))
}

// appendItem adds the text of a member or an element to that of an object or a
// list, before its closing bracket.
func appendItem(container, item []byte) []byte {
	end := len(bytes.TrimRight(container, " \t\r\n")) - 1
	begin := bytes.IndexAny(container, "{[") + 1
	if len(bytes.TrimSpace(container[begin:end])) > 0 {
		item = append([]byte(","), item...)
	}
	return slices.Concat(container[:end], item, container[end:])
}

func named(name string, value []byte) []byte {
	return slices.Concat(quoted(name), []byte(":"), value)
}

func quoted(name string) []byte { return []byte(`"` + name + `"`) }

// memberText is a member of a JSON object and where in the text its value is.
type memberText struct {
	name     string
	from, to int64
}

// membersOf returns the members of a valid JSON object, in their order.
func membersOf(object []byte) (members []memberText) {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, _ = dec.Token() // the brace; no step can fail, as the text is valid
	for dec.More() {
		token, _ := dec.Token()
		name, _ := token.(string)
		var value json.RawMessage
		_ = dec.Decode(&value)
		to := dec.InputOffset()
		members = append(members, memberText{name, to - int64(len(value)), to})
	}
	return members
}
