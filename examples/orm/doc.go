// Package orm shows effects and calls through gorm, ent, bun, sqlx and sqlc, and tries them. It
// has examples and tests, in the module of the examples, so that users do not download an ORM.
package orm

//go:generate sqlc generate
