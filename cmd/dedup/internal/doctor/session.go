package doctor

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/inspect"
)

// A session is how the database is looked at: as an application with the same URL does.
type session struct {
	cli.Query
	pool     *pgxpool.Pool // of two connections
	overdue  time.Duration // how long something may be due
	encoding string        // client_encoding, which the server reports when a connection is made
}

// introduce reads the role and the database from the server: a pooler may replace those of the URL.
func (s *session) introduce(ctx context.Context) (who subject, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout+inspect.AnswerWait)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return who, err
	}
	defer conn.Release()
	s.encoding, who.Schema = conn.Conn().PgConn().ParameterStatus("client_encoding"), s.Schema
	err = conn.QueryRow(ctx, "SELECT current_setting('server_version'), current_database(), current_user", pgx.QueryExecModeExec).
		Scan(&who.Server, &who.Database, &who.Role)
	return who, err
}

// read reads the one value of a query.
func (s *session) read(ctx context.Context, sql string, args pgx.NamedArgs, value any) error {
	return inspect.ReadOnly(ctx, s.pool, s.Timeout, func(tx pgx.Tx) error {
		// Exec mode prepares nothing, so that it works behind every pooler.
		return tx.QueryRow(ctx, sql, pgx.QueryExecModeExec, args).Scan(value)
	})
}
