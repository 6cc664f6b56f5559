package mcpdedup

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// inputSchema returns the schema of a tool's arguments: a closed object.
func inputSchema(in reflect.Type, opts *Options) (*jsonschema.Schema, error) {
	s := typeSchemas{given: opts.TypeSchemas}
	return s.of(in)
}

// outputSchema returns the schema of a tool's results, nil where they may be
// something else than an object, which clients of most versions do not take.
func outputSchema(out reflect.Type, opts *Options) (*jsonschema.Schema, error) {
	if out.Kind() != reflect.Struct && !opts.Envelope {
		return nil, nil
	}
	s := typeSchemas{given: opts.TypeSchemas, results: true}
	schema, err := s.of(out)
	switch {
	case err != nil:
		return nil, err
	case opts.Envelope:
		return envelopeSchema(schema), nil
	case schema.Type != "object":
		return nil, nil
	default:
		return schema, nil
	}
}
