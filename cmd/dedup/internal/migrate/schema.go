package migrate

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/migrations"
)

// schema has the flags of `dedup migrate` and, once connected, the state of the database.
type schema struct {
	cli.Target
	recreate bool
	// citus distributes the tables on a Citus cluster, co-located with the table colocateWith.
	citus        bool
	colocateWith string

	db         *sql.DB
	tableFound bool // tool_dedup is there
	recorded   bool // goose has recorded a migration in its version table
}

// config returns the configuration of a connection whose search_path is the schema alone: the
// migrations create unqualified objects.
func (s *schema) config() (*pgx.ConnConfig, error) {
	config, err := s.Config("dedup migrate")
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{s.Schema}.Sanitize()
	return config.ConnConfig, nil
}

// with runs fn with a connection. The schema must exist.
func (s *schema) with(fn func(cmd *cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		config, err := s.config()
		if err != nil {
			return err
		}
		s.db = stdlib.OpenDB(*config)
		defer func() { _ = s.db.Close() }() // nothing is under way
		if err := s.look(cmd.Context()); err != nil {
			return err
		}
		return fn(cmd)
	}
}

// addCitusFlags adds the flags for a Citus cluster.
func (s *schema) addCitusFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.citus, "citus", false, "distribute the tables on a Citus cluster, by scope")
	cmd.Flags().StringVar(&s.colocateWith, "colocate-with", "", "a distributed table of the application, whose tenant column is text COLLATE \"C\" (default none: those name tool_dedup)")
}

// look reads the state of the database. It changes nothing: goose would create its version table.
func (s *schema) look(ctx context.Context) error {
	var schemaFound, versionsFound bool
	err := s.db.QueryRowContext(ctx, `
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1),
       to_regclass(format('%I.%I', $1::text, 'tool_dedup')) IS NOT NULL, to_regclass(format('%I.%I', $1::text, $2::text)) IS NOT NULL`,
		s.Schema, migrations.VersionTable).Scan(&schemaFound, &s.tableFound, &versionsFound)
	switch {
	case err != nil:
		return fmt.Errorf("looking at the database: %w", err)
	case !schemaFound:
		return fmt.Errorf("there is no schema %q in the database; create it (CREATE SCHEMA %s) or name another with --schema",
			s.Schema, pgx.Identifier{s.Schema}.Sanitize())
	case !versionsFound:
		return nil
	}
	err = s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM `+migrations.VersionTable+` WHERE version_id > 0 AND is_applied)`).Scan(&s.recorded)
	if err != nil {
		return fmt.Errorf("reading %s: %w", migrations.VersionTable, err)
	}
	return nil
}
