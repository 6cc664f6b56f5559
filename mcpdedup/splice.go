package mcpdedup

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// KeyArgument is the argument that is added to tools. A model sends the key of its call in it.
const KeyArgument = "idempotencyKey"

// Models read these descriptions. They must decide both when to make a key and when to repeat one.
const (
	requiredKeyText = "Names this one action, so that it is carried out only once. " +
		"For a new action make up a new random value, such as a UUID, even if the other arguments equal an earlier call's. " +
		"For a retry of the same action, after an error, a timeout or a lost answer, send exactly the same value and the same arguments again."
	optionalKeyText = "Optional. " + requiredKeyText
)

// offered is a tool as clients see it.
type offered struct {
	opts        *Options
	info        tool.Info
	keyArgument string // the argument that holds the key, or ""
	ownKey      bool   // keyArgument is one of the tool's own arguments
}

func offer(info tool.Info, opts *Options) offered {
	o := offered{opts: opts, info: info}
	if info.Class.Writes() && len(info.Key) == 0 && !opts.KeysInMeta {
		o.keyArgument = KeyArgument
	}
	return o
}

// splice adds the argument for the key to an object's schema.
func (o *offered) splice(schema json.RawMessage) (json.RawMessage, error) {
	if o.keyArgument == "" || o.ownKey {
		return schema, nil
	}
	shown := readObject(schema)
	properties, err := shown.object("properties")
	if err != nil {
		return nil, err
	}
	if properties.value(o.keyArgument) != nil {
		return nil, errArgumentTaken
	}
	if keyword := closing(schema); keyword != "" {
		return nil, &closedError{keyword}
	}
	text := optionalKeyText
	if o.info.Class.NeedsKey() {
		text = requiredKeyText
	}
	description, _ := door.JSON(text) // every string has JSON
	properties.set(o.keyArgument, fmt.Appendf(nil, `{"type":"string","description":%s,"minLength":1,"maxLength":%d}`, description, maxKeyLength))
	shown.set("properties", properties.text())
	if !o.info.Class.NeedsKey() {
		return shown.text(), nil
	}
	names := []byte("[")
	if given := shown.value("required"); given != nil {
		var required []json.RawMessage
		if err := json.Unmarshal(given, &required); err != nil {
			return nil, fmt.Errorf("mcpdedup: required in a tool's schema is no list: %w", err)
		}
		for _, name := range required {
			names = append(append(names, name...), ',')
		}
	}
	names = append(append(names, '"'), o.keyArgument...)
	names = append(names, '"', ']')
	shown.set("required", names)
	return shown.text(), nil
}

// closedError is returned if a schema refuses arguments with the added one.
type closedError struct{ keyword string }

func (e *closedError) Error() string {
	return "mcpdedup: a tool's schema refuses the argument that is added to it, by " + e.keyword
}

var errArgumentTaken = errors.New("mcpdedup: a tool has an argument of the name of the one that is added to it")
