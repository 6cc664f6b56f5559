package mcpdedup

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// object returns the schema of a struct. An embedded struct's fields are its
// owner's, unless it has a name in JSON.
func (s *typeSchemas) object(t reflect.Type) (*jsonschema.Schema, error) {
	o := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	if !s.results {
		o.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	for _, f := range jsonFields(t) {
		property, err := s.field(f)
		if err != nil {
			return nil, err
		}
		o.Properties[f.name] = property
		o.PropertyOrder = append(o.PropertyOrder, f.name)
		if !s.results && !f.has("omitempty") && !f.has("omitzero") {
			o.Required = append(o.Required, f.name)
		}
	}
	return o, nil
}

func (s *typeSchemas) field(f jsonField) (*jsonschema.Schema, error) {
	if f.has("string") {
		return nil, fmt.Errorf("has the field %s with the option \"string\", which its schema would not tell; make it a string", f.name)
	}
	property, err := s.of(f.Type)
	if err != nil {
		return nil, err
	}
	if f.Tag.Get("dedup") == "key" { // is there in every call
		property.Types = slices.DeleteFunc(property.Types, func(name string) bool { return name == "null" })
	}
	if text, ok := f.Tag.Lookup("jsonschema"); ok {
		word, _, _ := strings.Cut(text, "=")
		if text == "" || word != text && !strings.ContainsAny(word, " \t\n") {
			return nil, fmt.Errorf("has the field %s with a jsonschema tag that is not a description", f.name)
		}
		property.Description = text
	}
	return property, nil
}

// jsonField is a field as encoding/json names it.
type jsonField struct {
	reflect.StructField
	name    string
	tagged  bool
	options []string
}

func (f *jsonField) has(option string) bool { return slices.Contains(f.options, option) }

// jsonFields returns the fields that encoding/json reads and writes. Of several
// with one name it takes the one that is embedded least deeply, there the one that
// has its name from a tag, and none if there are two of these.
func jsonFields(t reflect.Type) (fields []jsonField) {
	taken, walked := map[string]bool{}, map[reflect.Type]bool{}
	for level := []reflect.Type{t}; len(level) > 0; {
		var next []reflect.Type
		var found []jsonField
		for _, t := range level {
			own, embedded := fieldsOf(t)
			found = append(found, own...)
			walked[t] = true
			next = append(next, embedded...)
		}
		for _, f := range found {
			if taken[f.name] {
				continue
			}
			same := slices.DeleteFunc(slices.Clone(found), func(o jsonField) bool { return o.name != f.name })
			if tagged := slices.DeleteFunc(slices.Clone(same), func(o jsonField) bool { return !o.tagged }); len(tagged) > 0 {
				same = tagged
			}
			if len(same) == 1 {
				fields = append(fields, same[0])
			}
			taken[f.name] = true
		}
		level = slices.DeleteFunc(next, func(t reflect.Type) bool { return walked[t] })
	}
	return fields
}

// fieldsOf returns the fields of a struct itself and the structs that it embeds.
func fieldsOf(t reflect.Type) (own []jsonField, embedded []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		behind := f.Type
		if behind.Kind() == reflect.Pointer {
			behind = behind.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && behind.Kind() == reflect.Struct:
			embedded = append(embedded, behind)
		case f.IsExported():
			field := jsonField{StructField: f, name: f.Name, tagged: name != "", options: strings.Split(options, ",")}
			if field.tagged {
				field.name = name
			}
			own = append(own, field)
		}
	}
	return own, embedded
}
