package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

// Query is the database that a command line names, and how it is asked.
type Query struct {
	Target
	Timeout time.Duration // of each statement
	JSON    bool
}

// AddFlags adds the flags that name the query. of is what --json writes as a line.
func (q *Query) AddFlags(cmd *cobra.Command, of string) {
	q.Target.AddFlags(cmd)
	AddTimeout(cmd, &q.Timeout)
	cmd.Flags().BoolVar(&q.JSON, "json", false, "write each "+of+" as a line of JSON")
}

// Database is what a Query names, connected to.
type Database struct {
	*Query
	Pool  *pgxpool.Pool
	D     *dedup.Deduper
	Tools *external.Tools
}

// With connects to the target for as long as fn runs. opts may be nil; their Schema is the
// target's.
func (q *Query) With(cmd *cobra.Command, opts *dedup.Options, fn func(ctx context.Context, db *Database) error) error {
	ctx := cmd.Context()
	if err := CheckTimeout(q.Timeout); err != nil {
		return err
	}
	config, err := q.Config(cmd.CommandPath())
	if err != nil {
		return err
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = 1, 0, 0
	// Exec mode prepares nothing, so that it works behind every pooler.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return exit.Usage("the database's URL: %w", err)
	}
	defer pool.Close()
	db := &Database{Query: q, Pool: pool}
	if err := db.prepare(ctx, opts); err != nil {
		return err
	}
	return fn(ctx, db)
}

func (db *Database) prepare(ctx context.Context, opts *dedup.Options) error {
	var own dedup.Options
	if opts != nil {
		own = *opts
	}
	own.Schema = db.Schema
	var err error
	if db.D, err = dedup.New(db.Pool, &own); err == nil {
		db.Tools, err = external.New(db.D, nil)
	}
	if err != nil {
		return exit.Usage("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectWait+inspect.AnswerWait)
	defer cancel()
	if err := db.Pool.Ping(ctx); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	return nil
}

// ReadOnly is that of package inspect, with the errors of [Database.Explained].
func (db *Database) ReadOnly(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return db.Explained(inspect.ReadOnly(ctx, db.Pool, db.Timeout, fn))
}

// Explained says what to do about a table that is not there, or may not be read.
func (db *Database) Explained(err error) error {
	const insufficientPrivilege = "42501"
	server, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return err
	case inspect.IsMissing(err):
		return fmt.Errorf("%w; `dedup migrate up` makes what is missing, and `dedup migrate check` names it", err)
	case server.Code == insufficientPrivilege:
		schema, role := pgx.Identifier{db.Schema}.Sanitize(), pgx.Identifier{db.Pool.Config().ConnConfig.User}.Sanitize()
		return &unreadable{server, fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT SELECT ON ALL TABLES IN SCHEMA %[1]s TO %[2]s", schema, role)}
	}
	return err
}

// unreadable is an error of a role that may not read a table.
type unreadable struct {
	err   *pgconn.PgError
	grant string
}

// Error implements error. What the library says of its own privileges is left out: to read
// takes fewer.
func (e *unreadable) Error() string {
	return fmt.Sprintf("%s (SQLSTATE %s); the owner of the tables may let it be read, or grant SELECT on single tables: %s", e.err.Message, e.err.Code, e.grant)
}

// Unwrap returns the server's error.
func (e *unreadable) Unwrap() error { return e.err }
