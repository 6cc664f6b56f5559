package mcpdedup

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tooldedup/dedup/tool"
)

// The arguments that are added to tools.
const (
	// KeyArgument is the argument in which a model sends the key of its call.
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
	key         bool
	keyRequired bool
	confirm     bool
}

func spliceFor(info tool.Info, opts *Options) spliced {
	return spliced{
		key:         info.Class.Writes() && !info.KeyInArguments() && !opts.KeysInMeta,
		keyRequired: info.Class.NeedsKey(),
		confirm:     info.Lookalikes.Action == tool.Refuse,
	}
}

// splice adds the arguments to a schema and returns the names of those that the
// tool has itself.
func (s spliced) splice(schema *jsonschema.Schema) (taken []string) {
	add := func(name string, property *jsonschema.Schema) {
		if schema.Properties[name] != nil {
			taken = append(taken, name)
			return
		}
		if schema.Properties == nil {
			schema.Properties = map[string]*jsonschema.Schema{}
		}
		schema.Properties[name] = property
		if len(schema.PropertyOrder) == len(schema.Properties)-1 {
			schema.PropertyOrder = append(schema.PropertyOrder, name)
		}
	}
	if s.key {
		text := optionalKeyText
		if s.keyRequired {
			text = requiredKeyText
			schema.Required = append(schema.Required, KeyArgument)
		}
		add(KeyArgument, &jsonschema.Schema{
			Type: "string", Description: text, MinLength: jsonschema.Ptr(1), MaxLength: jsonschema.Ptr(maxKeyBytes),
		})
	}
	if s.confirm {
		add(ConfirmArgument, &jsonschema.Schema{Type: "boolean", Description: confirmText})
	}
	return taken
}
