package sqldedup

import (
	"cmp"
	"context"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
)

// conn is a connection of database/sql, which is the session's transaction. No error of it is
// driver.ErrBadConn, upon which database/sql would send the statement again. A transaction of
// database/sql has one for itself.
type conn struct {
	*session
	begun *savepoint // the transaction that it is in, as far as database/sql knows
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

// enter begins a statement.
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
		c.saved[n-1].beside = true
	}
	return nil
}

// CheckNamedValue takes every argument: pgx knows [driver.Valuer] and its own types.
func (c *conn) CheckNamedValue(*driver.NamedValue) error { return nil }

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	values := valuesOf(args)
	g, grabs := grabOf(values) // DoTx on the handle of an effect
	if grabs {
		g.session = c.session
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	if grabs {
		return nil, errGrabbed
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

// Prepare returns a statement that pgx prepares when it is first run.
func (c *conn) Prepare(query string) (driver.Stmt, error) { return &stmt{c, query}, nil }

// stmt is a prepared statement: its text.
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

// read makes the result set of a query that of database/sql. It reads the first row, before
// which the columns may not be known.
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
