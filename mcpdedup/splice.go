package mcpdedup

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tooldedup/dedup/internal/door"
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

// splice adds the arguments to an object's schema and returns the names of those that the
// tool has itself.
func (s spliced) splice(schema json.RawMessage) (_ json.RawMessage, taken []string, err error) {
	shown := readObject(schema)
	for _, a := range s.arguments() {
		properties, err := shown.object("properties")
		if err != nil {
			return nil, nil, err
		}
		if properties.value(a.name) != nil {
			taken = append(taken, a.name)
			continue
		}
		text, err := json.Marshal(a.schema)
		if err != nil {
			return nil, nil, err
		}
		properties.set(a.name, text)
		shown.set("properties", properties.text())
		if !a.required {
			continue
		}
		required := []json.RawMessage{}
		if given := shown.value("required"); given != nil {
			if err := json.Unmarshal(given, &required); err != nil {
				return nil, nil, fmt.Errorf("mcpdedup: required in a tool's schema is no list: %w", err)
			}
		}
		text, err = door.JSON(append(required, json.RawMessage(`"`+a.name+`"`)))
		if err != nil {
			return nil, nil, err
		}
		shown.set("required", text)
	}
	return shown.text(), taken, nil
}
