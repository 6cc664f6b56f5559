package cli

import (
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

// Query is the database that a command line names, and how it is asked.
type Query struct {
	Target
	Timeout time.Duration // of each statement
	JSON    bool

	claimFirst bool
	role       string // that has connected
}

// AddFlags adds the flags that name the query. of is what --json writes as a line.
func (q *Query) AddFlags(cmd *cobra.Command, of string) {
	q.Target.AddFlags(cmd)
	AddTimeout(cmd, &q.Timeout)
	cmd.Flags().BoolVar(&q.JSON, "json", false, "write each "+of+" as a line of JSON")
}

// AddOrder adds the flag that says in which order the processes make calls.
func (q *Query) AddOrder(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&q.claimFirst, "claim-first", false, "the processes that call use Options.Order ClaimFirst")
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

// AddTimeout adds the flag that bounds each statement.
func AddTimeout(cmd *cobra.Command, timeout *time.Duration) {
	AddDuration(cmd, timeout, "timeout", 5*time.Second, "how long one statement may take")
}

// CheckTimeout returns an [*exit.UsageError] for a timeout that the server does not take.
func CheckTimeout(timeout time.Duration) error {
	if timeout < time.Millisecond || timeout > math.MaxInt32*time.Millisecond {
		return exit.Usage("--timeout must be 1ms to 24 days")
	}
	return nil
}

// With connects to the target for as long as fn runs.
func (q *Query) With(cmd *cobra.Command, fn func(ctx context.Context, db *inspect.Database) error) error {
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
	q.role = config.ConnConfig.User
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return exit.Usage("the database's URL: %w", err)
	}
	defer pool.Close()
	opts := &dedup.Options{Schema: q.Schema}
	if q.claimFirst {
		opts.Order = dedup.ClaimFirst
	}
	db := &inspect.Database{Timeout: q.Timeout}
	if db.D, err = dedup.New(pool, opts); err == nil {
		db.Tools, err = external.New(db.D, nil)
	}
	if err != nil {
		return exit.Usage("%w", err)
	}
	soon, cancel := context.WithTimeout(ctx, connectWait+inspect.AnswerWait)
	defer cancel()
	if err := pool.Ping(soon); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	return fn(ctx, db)
}

// Explained says what to do about an error of reading: a name that no call has, a table that is not
// there, or may not be read.
func (q *Query) Explained(err error) error {
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
		schema, role := pgx.Identifier{q.Schema}.Sanitize(), pgx.Identifier{q.role}.Sanitize()
		return fmt.Errorf("%s (SQLSTATE %s); the owner of the tables may let it be read, or grant SELECT on single tables: "+
			"GRANT USAGE ON SCHEMA %[3]s TO %[4]s; GRANT SELECT ON ALL TABLES IN SCHEMA %[3]s TO %[4]s", server.Message, server.Code, schema, role)
	}
	return err
}
