package migrate

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/migrations"
)

// schema is what the command line names and, once it is connected to, what was found there.
type schema struct {
	cli.Target
	recreate, dropRecords bool
	// citus says that the tables are to be placed on a Citus cluster, beside those of colocateWith.
	citus        bool
	colocateWith string

	db            *sql.DB
	tableFound    bool // tool_dedup is there
	versionsFound bool // goose's version table is there
	recorded      bool // goose has recorded a migration in it
}

// config is how to connect. The schema is all of the search_path: that is where unqualified objects go.
func (s *schema) config() (*pgx.ConnConfig, error) {
	config, err := s.Config("dedup migrate")
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{s.Schema}.Sanitize()
	return config.ConnConfig, nil
}

// with connects for as long as fn runs. The schema must exist.
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

// addCitusFlags adds the flags that say how the tables are to be placed on a Citus cluster.
func (s *schema) addCitusFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.citus, "citus", false, "place the tables on a Citus cluster: distributed by scope")
	cmd.Flags().StringVar(&s.colocateWith, "colocate-with", "", "a distributed table of the application, whose tenant column is text COLLATE \"C\" (default none: those name tool_dedup)")
}

// look changes nothing, where goose would create its version table.
func (s *schema) look(ctx context.Context) error {
	var schemaFound bool
	err := s.db.QueryRowContext(ctx, `
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1),
       to_regclass(format('%I.%I', $1::text, 'tool_dedup')) IS NOT NULL, to_regclass(format('%I.%I', $1::text, $2::text)) IS NOT NULL`,
		s.Schema, migrations.VersionTable).Scan(&schemaFound, &s.tableFound, &s.versionsFound)
	switch {
	case err != nil:
		return fmt.Errorf("looking at the database: %w", err)
	case !schemaFound:
		return fmt.Errorf("there is no schema %q in the database; create it (CREATE SCHEMA %s) or name another with --schema",
			s.Schema, pgx.Identifier{s.Schema}.Sanitize())
	case !s.versionsFound:
		return nil
	}
	err = s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM `+migrations.VersionTable+` WHERE version_id > 0 AND is_applied)`).Scan(&s.recorded)
	if err != nil {
		return fmt.Errorf("reading %s: %w", migrations.VersionTable, err)
	}
	return nil
}

// otherMeans says what a table means that is there and not recorded.
func (s *schema) otherMeans() string {
	return fmt.Sprintf("%s is there, but %s records no migration of it: it was applied by other means than goose", s.Table(), migrations.VersionTable)
}

// provider returns goose with the migrations.
func (s *schema) provider(opts ...goose.ProviderOption) (*goose.Provider, error) {
	p, err := goose.NewProvider(goose.DialectPostgres, s.db, migrations.FS, append(opts, goose.WithTableName(migrations.VersionTable))...)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations: %w", err)
	}
	return p, nil
}

// lockedProvider is provider for changes: several of them at once, as when many
// instances of an application start, take turns.
func (s *schema) lockedProvider(opts ...goose.ProviderOption) (*goose.Provider, error) {
	const everySecond, forFiveMinutes = 1, 300
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(everySecond, forFiveMinutes))
	if err != nil {
		return nil, fmt.Errorf("preparing the lock: %w", err)
	}
	return s.provider(append(opts, goose.WithSessionLocker(locker))...)
}
