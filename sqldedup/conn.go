package sqldedup

import (
	"cmp"
	"context"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
)

// conn is a connection of database/sql. All of them use the session's transaction. Its errors never
// are driver.ErrBadConn, after which database/sql would repeat the statement. A transaction of
// database/sql has a conn of its own.
type conn struct {
	*session
	begun *savepoint // the transaction that database/sql began on it
}

var (
	_ driver.ConnBeginTx       = (*conn)(nil)
	_ driver.ExecerContext     = (*conn)(nil)
	_ driver.QueryerContext    = (*conn)(nil)
	_ driver.NamedValueChecker = (*conn)(nil)
)

func (c *conn) Close() error { return nil }
func (c *conn) Begin() (driver.Tx, error) {
	return c.begin(context.Background(), c, driver.TxOptions{})
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.begin(ctx, c, opts)
}

// enter locks the session for a statement.
func (c *conn) enter() error {
	if err := c.session.enter(); err != nil {
		return err
	}
	c.dropEnded()
	if c.begun != nil && (c.begun.dropped != nil || c.begun.ctx.Err() != nil) {
		c.mu.Unlock()
		return cmp.Or(c.begun.dropped, context.Cause(c.begun.ctx))
	}
	if n := len(c.saved); n > 0 && c.saved[n-1].of != c {
		c.saved[n-1].wroteInside = true
	}
	return nil
}

// CheckNamedValue accepts every argument: pgx knows [driver.Valuer] and its own types.
func (c *conn) CheckNamedValue(*driver.NamedValue) error { return nil }

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	values := valuesOf(args)
	p, probes := probeOf(values) // DoTx called with an effect's handle
	if probes {
		p.session = c.session
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	if probes {
		return nil, errProbed
	}
	tag, err := c.tx.Exec(ctx, query, values...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	return c.read(c.tx.Query(ctx, query, append([]any{resultFormats}, valuesOf(args)...)...))
}

func valuesOf(args []driver.NamedValue) []any {
	values := make([]any, len(args))
	for i := range args {
		values[i] = args[i].Value
	}
	return values
}

// Prepare returns a statement that pgx prepares when it first runs.
func (c *conn) Prepare(query string) (driver.Stmt, error) { return &stmt{c, query}, nil }

// stmt is a prepared statement.
type stmt struct {
	*conn
	query string
}

func (s *stmt) NumInput() int { return -1 } // the server counts

func (s *stmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }
func (s *stmt) Query([]driver.Value) (driver.Rows, error)  { return nil, driver.ErrSkip }

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.query, args)
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

// read returns a query's rows for database/sql. It reads the first row, because the columns may be
// unknown before.
func (c *conn) read(from pgx.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	r := &rows{c: c, from: from, peeked: true, more: from.Next()}
	if err := from.Err(); err != nil {
		from.Close()
		return nil, err
	}
	r.fields = from.FieldDescriptions()
	if r.more {
		c.reading = r
	}
	return r, nil
}
