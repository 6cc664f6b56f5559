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

// Query is what the command line of a command says that asks a database.
type Query struct {
	Target
	Timeout time.Duration // of each statement
	JSON    bool
	// Limit and After are the page of a list. After is the cursor of the entry before the first one.
	Limit int
	After string
}

// Asks is what a command does with the database that it asks.
type Asks func(cmd *cobra.Command, db *inspect.Database, args []string) error

// Command has cmd ask the database that its command line names. What PreRunE says of the command line is
// said before. of is what --json writes as a line, empty for a command without.
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

// AddFlags adds the flags that name the database, and --json where it has a usage.
func (q *Query) AddFlags(cmd *cobra.Command, usageOfJSON string) {
	q.Target.AddFlags(cmd)
	AddDuration(cmd, &q.Timeout, "timeout", 5*time.Second, "how long one statement may take")
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
	q.AddLimit(cmd, "how many are listed at most")
	cmd.Flags().StringVar(&q.After, "after", "", "list what comes after the entry with this `cursor`, which --json writes for each")
}

// AddActor adds the flag that names who acts, which is the system's user where it is not
// given.
func AddActor(cmd *cobra.Command, actor *string) {
	var name string
	if who, err := user.Current(); err == nil {
		name = who.Username
	}
	cmd.Flags().StringVar(actor, "actor", name, "`name` of who does it, for the audit")
}

// Pool makes a pool of so many connections, with the exec mode of the URL where mode is zero. The error is an
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

// Explained says what to do about an error of reading: a name that no call has, a table that is not
// there, or may not be read.
func Explained(db *inspect.Database, err error) error {
	const insufficientPrivilege = "42501"
	server, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, dedup.ErrInvalid):
		return exit.Usage("%w", err)
	case errors.Is(err, inspect.ErrCursor):
		return exit.Usage("--after: %w", err)
	case inspect.IsMissing(err):
		return fmt.Errorf("%w; `dedup migrate up` makes what is missing, and `dedup migrate check` names it", err)
	case ok && server.Code == insufficientPrivilege:
		// What the library says of its own privileges is left out: to read takes fewer.
		schema, role := pgx.Identifier{db.D.Options().Schema}.Sanitize(), pgx.Identifier{db.D.Pool().Config().ConnConfig.User}.Sanitize()
		return fmt.Errorf("%s (SQLSTATE %s); the owner of the tables may let it be read, or grant SELECT on single tables: "+
			"GRANT USAGE ON SCHEMA %[3]s TO %[4]s; GRANT SELECT ON ALL TABLES IN SCHEMA %[3]s TO %[4]s", server.Message, server.Code, schema, role)
	}
	return err
}
