// Package orm shows effects and calls through gorm, ent, bun, sqlx and sqlc, and tests them. It has
// only examples and tests. It is in the examples' module, so that users of the library do not
// download an ORM.
package orm

//go:generate sqlc generate
