// Package pgx stands in for pgx, as far as the cases use it.
package pgx

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	ErrNoRows, ErrTooManyRows = errors.New("no rows"), errors.New("too many rows")
	ErrTxClosed               = errors.New("tx is closed")
)

type Tx interface {
	Begin(ctx context.Context) (Tx, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
	CopyFrom(ctx context.Context, table Identifier, columns []string, src CopyFromSource) (int64, error)
	SendBatch(ctx context.Context, b *Batch) BatchResults
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) Row
	Conn() *Conn
}

type TxOptions struct{}

type Row interface{ Scan(dest ...any) error }

type Rows interface {
	Close()
	Err() error
	Next() bool
	Scan(dest ...any) error
}

type Batch struct{}

func (b *Batch) Queue(sql string, args ...any) {}

type BatchResults interface {
	Exec() (pgconn.CommandTag, error)
	QueryRow() Row
	Close() error
}

type (
	Identifier     []string
	CopyFromSource interface{ Next() bool }
)

type Conn struct{}

func Connect(ctx context.Context, url string) (*Conn, error) { return nil, nil }

func (c *Conn) Begin(ctx context.Context) (Tx, error) { return nil, nil }
func (c *Conn) Close(ctx context.Context) error       { return nil }
func (c *Conn) PgConn() *pgconn.PgConn                { return nil }
func (c *Conn) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}
func (c *Conn) QueryRow(ctx context.Context, sql string, args ...any) Row { return nil }

type beginner interface {
	Begin(ctx context.Context) (Tx, error)
}

func BeginFunc(ctx context.Context, db beginner, fn func(Tx) error) error { return nil }

func CollectRows[T any](rows Rows, fn func(Row) (T, error)) ([]T, error) { return nil, nil }
func CollectExactlyOneRow[T any](rows Rows, fn func(Row) (T, error)) (t T, err error) {
	return t, nil
}

func ForEachRow(rows Rows, scans []any, fn func() error) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}

func RowTo[T any](row Row) (T, error) { var t T; return t, nil }
