package mcpdedup

import (
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// inputSchema returns the schema of a tool's arguments: a closed object.
func inputSchema(in reflect.Type, known map[reflect.Type]*jsonschema.Schema) (*jsonschema.Schema, error) {
	types, err := typeSchemas(in, known)
	if err != nil {
		return nil, err
	}
	schema, err := jsonschema.ForType(in, &jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, fmt.Errorf("has no JSON schema: %w; Options.TypeSchemas can give a type one", err)
	}
	return schema, nil
}

// outputSchema returns the schema of a tool's results, nil where they may be
// something else than an object, which clients of most versions do not take.
func outputSchema(out reflect.Type, opts *Options) (*jsonschema.Schema, error) {
	if out.Kind() != reflect.Struct && !opts.Envelope {
		return nil, nil
	}
	types, err := typeSchemas(out, opts.TypeSchemas)
	if err != nil {
		return nil, err
	}
	schema, err := jsonschema.ForType(out, &jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, fmt.Errorf("has no JSON schema: %w; Options.TypeSchemas can give a type one", err)
	}
	if opts.Envelope {
		openInner(schema)
		return envelopeSchema(schema), nil
	}
	open(schema)
	if schema.Type != "object" {
		return nil, nil
	}
	return schema, nil
}

// open makes a schema fit results that were recorded by another version of their
// type: members may be missing and others may be there.
func open(s *jsonschema.Schema) {
	if s.Properties != nil {
		s.AdditionalProperties, s.Required = nil, nil
	}
	for _, member := range s.Properties {
		openInner(member)
	}
	if s.Items != nil {
		openInner(s.Items)
	}
	if s.AdditionalProperties != nil {
		openInner(s.AdditionalProperties)
	}
}

// openInner opens a schema within another. A map may be nil there, which the
// inference does not say.
func openInner(s *jsonschema.Schema) {
	open(s)
	if s.Type == "object" && s.Properties == nil {
		s.Type, s.Types = "", []string{"null", "object"}
	}
}
