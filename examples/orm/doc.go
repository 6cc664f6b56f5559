// Package orm shows effects and calls through gorm, ent, bun, sqlx and sqlc, and tries them. It
// has examples and tests, and is a module of its own so that nobody else downloads an ORM.
package orm

//go:generate sqlc generate
