// Package pgxpool stands in for that of pgx, as far as the cases use it.
package pgxpool

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

type Pool struct{}

func (p *Pool) Acquire(ctx context.Context) (*Conn, error) { return nil, nil }
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error)  { return nil, nil }
func (p *Pool) Ping(ctx context.Context) error             { return nil }
func (p *Pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) { return nil, nil }
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row        { return nil }
func (p *Pool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults         { return nil }
func (p *Pool) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	return 0, nil
}

type Conn struct{}

func (c *Conn) Conn() *pgx.Conn { return nil }
func (c *Conn) Release()        {}
func (c *Conn) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}
