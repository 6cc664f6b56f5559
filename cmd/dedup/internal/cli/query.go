package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os/user"
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

// Query has the flags of a command that reads a database.
type Query struct {
	Target
	Timeout time.Duration // of each statement
	JSON    bool
	// Limit and After are the page of a list. After is the cursor of the entry before the first
	// one.
	Limit int
	After string
}

// Asks runs a command on the database.
type Asks func(cmd *cobra.Command, db *inspect.Database, args []string) error

// Command makes cmd run on the database that its flags name. PreRunE checks the flags first. of
// names an entry of the output for the usage of --json; if it is empty, the command has no --json.
func (q *Query) Command(cmd *cobra.Command, of string, run Asks) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = cobra.NoArgs
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return q.with(cmd, func(db *inspect.Database) error { return run(cmd, db, args) })
	}
	if of != "" {
		of = "write each " + of + " as a line of JSON"
	}
	q.AddFlags(cmd, of)
	return cmd
}

// AddFlags adds the flags that name the database, and --json if it has a usage.
func (q *Query) AddFlags(cmd *cobra.Command, usageOfJSON string) {
	q.Target.AddFlags(cmd)
	AddDuration(cmd, &q.Timeout, "timeout", 5*time.Second, "maximum duration of one statement")
	if usageOfJSON != "" {
		cmd.Flags().BoolVar(&q.JSON, "json", false, usageOfJSON)
	}
}

// AddLimit adds the flag that bounds a list.
func (q *Query) AddLimit(cmd *cobra.Command, usage string) {
	cmd.Flags().IntVar(&q.Limit, "limit", 100, usage+", 1 to 1000")
}

// AddPage adds the flags that name a page.
func (q *Query) AddPage(cmd *cobra.Command) {
	q.AddLimit(cmd, "maximum number of entries")
	cmd.Flags().StringVar(&q.After, "after", "", "list the entries after this `cursor`, which --json writes for each entry")
}

// AddActor adds the flag --actor, the name for the audit. Default: the system user.
func AddActor(cmd *cobra.Command, actor *string) {
	var name string
	if who, err := user.Current(); err == nil {
		name = who.Username
	}
	cmd.Flags().StringVar(actor, "actor", name, "`name` of the person, for the audit")
}

// Pool makes a pool of connections. Mode 0 keeps the exec mode of the URL. The error is an
// [*exit.UsageError].
func (q *Query) Pool(cmd *cobra.Command, connections int32, mode pgx.QueryExecMode) (*pgxpool.Pool, error) {
	switch {
	case q.Timeout < time.Millisecond || q.Timeout > math.MaxInt32*time.Millisecond:
		return nil, exit.Usage("--timeout must be 1ms to 24 days")
	case cmd.Flags().Lookup("limit") != nil && (q.Limit < 1 || q.Limit > 1000):
		return nil, exit.Usage("--limit must be 1 to 1000")
	}
	config, err := q.Config(cmd.CommandPath())
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = connections, 0, 0
	config.ConnConfig.DefaultQueryExecMode = cmp.Or(mode, config.ConnConfig.DefaultQueryExecMode)
	pool, err := pgxpool.NewWithConfig(cmd.Context(), config)
	if err != nil {
		return nil, exit.Usage("the database's URL: %w", err)
	}
	return pool, nil
}

// with connects to the target for as long as fn runs.
func (q *Query) with(cmd *cobra.Command, fn func(db *inspect.Database) error) error {
	// Exec mode prepares nothing, so that it works behind every pooler.
	pool, err := q.Pool(cmd, 1, pgx.QueryExecModeExec)
	if err != nil {
		return err
	}
	defer pool.Close()
	opts := &dedup.Options{Schema: q.Schema}
	db := &inspect.Database{Timeout: q.Timeout}
	if db.D, err = dedup.New(pool, opts); err == nil {
		db.Tools, err = external.New(db.D, nil)
	}
	if err != nil {
		return exit.Usage("%w", err)
	}
	soon, cancel := context.WithTimeout(cmd.Context(), connectWait+inspect.AnswerWait)
	defer cancel()
	if err := pool.Ping(soon); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	return fn(db)
}

// Explained adds the next step to an error of reading: an invalid name, a missing table, or a
// missing privilege.
func Explained(db *inspect.Database, err error) error {
	const insufficientPrivilege = "42501"
	server, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, dedup.ErrInvalid):
		return exit.Usage("%w", err)
	case errors.Is(err, inspect.ErrCursor):
		return exit.Usage("--after: %w", err)
	case inspect.IsMissing(err):
		return fmt.Errorf("%w; `dedup migrate up` makes the missing table", err)
	case ok && server.Code == insufficientPrivilege:
		// The library's own hint is left out: it asks for the privileges of a call, and reading
		// needs fewer.
		schema, role := pgx.Identifier{db.D.Options().Schema}.Sanitize(), pgx.Identifier{db.D.Pool().Config().ConnConfig.User}.Sanitize()
		return fmt.Errorf("%s (SQLSTATE %s); as the owner of the tables grant SELECT on them: "+
			"GRANT USAGE ON SCHEMA %[3]s TO %[4]s; GRANT SELECT ON ALL TABLES IN SCHEMA %[3]s TO %[4]s", server.Message, server.Code, schema, role)
	}
	return err
}
