// Package sqlx stands in for sqlx, as far as the cases use it.
package sqlx

import (
	"context"
	"database/sql"
)

type DB struct{ *sql.DB }

func NewDb(db *sql.DB, driverName string) *DB { return &DB{DB: db} }

func (db *DB) BeginTxx(ctx context.Context, opts *sql.TxOptions) (*Tx, error) { return nil, nil }
func (db *DB) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	return nil
}

type Tx struct{ *sql.Tx }

func (tx *Tx) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	return nil
}

type QueryerContext interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func GetContext(ctx context.Context, q QueryerContext, dest any, query string, args ...any) error {
	return nil
}
