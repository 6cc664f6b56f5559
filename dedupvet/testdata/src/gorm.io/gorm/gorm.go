// Package gorm stands in for gorm, as far as the cases use it.
package gorm

import (
	"context"
	"database/sql"
)

type ConnPool interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

type Statement struct{ ConnPool ConnPool }

type Session struct{ NewDB bool }

type DB struct {
	Error     error
	Statement *Statement
}

func (db *DB) Session(config *Session) *DB             { return db }
func (db *DB) WithContext(ctx context.Context) *DB     { return db }
func (db *DB) Create(value any) *DB                    { return db }
func (db *DB) Begin() *DB                              { return db }
func (db *DB) Commit() *DB                             { return db }
func (db *DB) Transaction(fc func(tx *DB) error) error { return nil }

type Interface[T any] interface {
	Create(ctx context.Context, r *T) error
}

func G[T any](db *DB) Interface[T] { return nil }
