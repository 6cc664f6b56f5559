// Package bun stands in for bun, as far as the cases use it.
package bun

import (
	"context"
	"database/sql"
)

type IConn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

type DB struct{ *sql.DB }

func NewDB(db *sql.DB) *DB { return &DB{db} }

func (db *DB) NewInsert() *InsertQuery { return nil }
func (db *DB) RunInTx(ctx context.Context, opts *sql.TxOptions, fn func(ctx context.Context, tx Tx) error) error {
	return nil
}

type Tx struct{ *sql.Tx }

func (tx Tx) Commit() error           { return nil }
func (tx Tx) NewInsert() *InsertQuery { return nil }

type InsertQuery struct{}

func (q *InsertQuery) Conn(db IConn) *InsertQuery                                { return q }
func (q *InsertQuery) Model(model any) *InsertQuery                              { return q }
func (q *InsertQuery) Exec(ctx context.Context, dest ...any) (sql.Result, error) { return nil, nil }
