// Package pgconn stands in for that of pgx, as far as the cases use it.
package pgconn

import "context"

type CommandTag struct{}

type PgError struct{ Code string }

func (e *PgError) Error() string    { return e.Code }
func (e *PgError) SQLState() string { return e.Code }

type ConnectError struct{}

func (e *ConnectError) Error() string { return "no connection" }

type MultiResultReader struct{}

func (r *MultiResultReader) Close() error { return nil }

type PgConn struct{}

func (c *PgConn) Exec(ctx context.Context, sql string) *MultiResultReader { return nil }
