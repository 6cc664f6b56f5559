package mcpdedup

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// KeyArgument is the argument that is added to tools, in which a model sends the key of its call.
const KeyArgument = "idempotencyKey"

// The descriptions are read by models. They say when to mint a key and when not:
// on both a model has to decide.
const (
	requiredKeyText = "Names this one action, so that it is carried out only once. " +
		"For a new action make up a new random value, such as a UUID, even if the other arguments equal an earlier call's. " +
		"For a retry of the same action, after an error, a timeout or a lost answer, send exactly the same value and the same arguments again."
	optionalKeyText = "Optional. " + requiredKeyText
)

// spliced says which argument a tool gets beside its own.
type spliced struct {
	keyArgument string // the argument that holds the key, empty if none does
	ownKey      bool   // it is one of the tool's own
	keyRequired bool
}

func spliceFor(info tool.Info, opts *Options) spliced {
	s := spliced{keyRequired: info.Class.NeedsKey()}
	if info.Class.Writes() && len(info.Key) == 0 && !opts.KeysInMeta {
		s.keyArgument = KeyArgument
	}
	return s
}

// splice adds the argument to an object's schema.
func (s spliced) splice(schema json.RawMessage) (json.RawMessage, error) {
	if s.keyArgument == "" || s.ownKey {
		return schema, nil
	}
	shown := readObject(schema)
	properties, err := shown.object("properties")
	if err != nil {
		return nil, err
	}
	if properties.value(s.keyArgument) != nil {
		return nil, errArgumentTaken
	}
	text := optionalKeyText
	if s.keyRequired {
		text = requiredKeyText
	}
	added, err := schemaText(&jsonschema.Schema{Type: "string", Description: text, MinLength: jsonschema.Ptr(1), MaxLength: jsonschema.Ptr(maxKeyLength)})
	if err != nil {
		return nil, err
	}
	properties.set(s.keyArgument, added)
	shown.set("properties", properties.text())
	if !s.keyRequired {
		return shown.text(), nil
	}
	required := []json.RawMessage{}
	if given := shown.value("required"); given != nil {
		if err := json.Unmarshal(given, &required); err != nil {
			return nil, fmt.Errorf("mcpdedup: required in a tool's schema is no list: %w", err)
		}
	}
	names, err := door.JSON(append(required, json.RawMessage(`"`+s.keyArgument+`"`)))
	if err != nil {
		return nil, err
	}
	shown.set("required", names)
	return shown.text(), nil
}

var errArgumentTaken = errors.New("mcpdedup: a tool has an argument of the name of the one that is added to it")
