// Package ent is the client that ent generates from the schema, without what nobody here imports.
package ent

//go:generate go run -mod=mod entgo.io/ent/cmd/ent@v0.14.5 generate --feature sql/execquery ./schema
//go:generate rm -r enttest hook runtime
