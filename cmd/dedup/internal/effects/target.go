package effects

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
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/exit"
)

const (
	// connectWait bounds connecting where the URL names no connect_timeout.
	connectWait = 10 * time.Second
	// answerWait is how much longer than the statement_timeout an answer may take.
	answerWait = 5 * time.Second
)

// target is the database that a command line names, and how it is asked.
type target struct {
	cli.Target
	timeout time.Duration // of each statement
	json    bool
}

func (t *target) addFlags(cmd *cobra.Command) {
	t.AddFlags(cmd)
	cli.AddTimeout(cmd, &t.timeout)
	cmd.Flags().BoolVar(&t.json, "json", false, "write each operation as a line of JSON")
}

// database is a target that is connected to.
type database struct {
	*target
	pool  *pgxpool.Pool
	tools *external.Tools
}

// open connects to the target.
func (t *target) open(ctx context.Context, command string) (*database, error) {
	if err := cli.CheckTimeout(t.timeout); err != nil {
		return nil, err
	}
	config, err := t.PoolConfig()
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = 1, 0, 0
	// Exec mode prepares nothing, so that it works behind every pooler.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectWait
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = command
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, exit.Usage("the database's URL: %w", err)
	}
	db := &database{target: t, pool: pool}
	if err := db.prepare(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return db, nil
}

func (db *database) prepare(ctx context.Context) error {
	d, err := dedup.New(db.pool, &dedup.Options{Schema: db.Schema})
	if err == nil {
		db.tools, err = external.New(d, nil)
	}
	if err != nil {
		return exit.Usage("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectWait+answerWait)
	defer cancel()
	if err := db.pool.Ping(ctx); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	return nil
}

// readOnly runs fn in a transaction that can change nothing, and whose statements neither run
// nor wait for long.
func (db *database) readOnly(ctx context.Context, fn func(tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.timeout+answerWait)
	defer cancel()
	options := pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.ReadCommitted}
	err := pgx.BeginTxFunc(ctx, db.pool, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d", db.timeout.Milliseconds())); err != nil {
			return err
		}
		return fn(tx)
	})
	return explained(err)
}

// explained says what to do about a table that is not there.
func explained(err error) error {
	const undefinedTable, undefinedSchema = "42P01", "3F000"
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && (pgErr.Code == undefinedTable || pgErr.Code == undefinedSchema) {
		return fmt.Errorf("%w; `dedup migrate check` says what is missing", err)
	}
	return err
}
