// Package schema has the schema that ent's client is generated from.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
)

// Note is a row of notes.
type Note struct{ ent.Schema }

// Annotations names the table.
func (Note) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Annotation{Table: "notes"}}
}

// Fields are its columns.
func (Note) Fields() []ent.Field { return []ent.Field{field.String("text").Unique().Immutable()} }
