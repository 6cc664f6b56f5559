package mcpdedup

import (
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tooldedup/dedup/tool"
)

// inputSchema returns the schema of a tool's arguments: a closed object.
func inputSchema(in reflect.Type, opts *Options) (*jsonschema.Schema, error) {
	s := typeSchemas{given: opts.TypeSchemas}
	return s.of(in)
}

// outputSchema returns the schema of a tool's results, nil where they may be
// something else than an object, which clients of most versions do not take.
func outputSchema(info tool.Info, opts *Options) (*jsonschema.Schema, error) {
	if info.Out.Kind() != reflect.Struct && !opts.Envelope && !info.External {
		return nil, nil
	}
	s := typeSchemas{given: opts.TypeSchemas, results: true}
	schema, err := s.of(info.Out)
	switch {
	case err != nil:
		return nil, err
	case info.External:
		return operationSchema(schema), nil
	case opts.Envelope:
		return envelopeSchema(schema), nil
	case schema.Type != "object":
		return nil, nil
	default:
		return schema, nil
	}
}
