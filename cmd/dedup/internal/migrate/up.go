package migrate

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/migrations"
)

func upCommand(s *schema) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Create the tables, or bring them up to date",
		Long: `Apply the pending migrations, each in its own transaction, and record them in
tool_dedup_version. Without pending migrations nothing happens. Run the command at every
deployment; several processes at once take turns.

It is an error if a table is missing although its migration is recorded: restore the
table, or give --recreate. A new tool_dedup is empty, so every earlier call runs again
if it is retried.

With --citus also distribute the tables on the Citus cluster, in one transaction, unless
they are distributed. While calls run, first distribute the application's tables, in a
transaction of their own, and name one with --colocate-with. ` + "`dedup migrate print --citus`" + `
prints the SQL.`,
		Args: cobra.NoArgs,
		RunE: s.with(s.up),
	}
	s.addCitusFlags(cmd)
	cmd.Flags().BoolVar(&s.recreate, "recreate", false, "make missing tables again, empty, although their migration is recorded")
	return cmd
}

func (s *schema) up(cmd *cobra.Command) error {
	ctx := cmd.Context()
	// goose would record migrations that it did not apply.
	if s.tableFound && !s.recorded {
		return fmt.Errorf("%s is there, but %s records no migration of it: it was applied by other means than goose; apply new migrations by those, and see `dedup migrate check`",
			s.Table(), migrations.VersionTable)
	}
	if s.recorded {
		if err := s.settleDropped(cmd); err != nil {
			return err
		}
	}
	// The lock makes instances of an application that start at once take turns.
	const everySecond, forFiveMinutes = 1, 300
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(everySecond, forFiveMinutes))
	if err != nil {
		return fmt.Errorf("preparing the lock: %w", err)
	}
	// settleDropped may unrecord a migration that is older than others.
	p, err := goose.NewProvider(goose.DialectPostgres, s.db, migrations.FS,
		goose.WithTableName(migrations.VersionTable), goose.WithSessionLocker(locker), goose.WithAllowOutofOrder(true))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	results, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("applying the migrations: %w", err)
	}
	for _, result := range results {
		say(cmd, "applied %s in %s", path.Base(result.Source.Path), result.Duration.Round(time.Millisecond))
	}
	if len(results) == 0 {
		say(cmd, "nothing to do: all migrations are applied")
	}
	if s.citus {
		return s.place(cmd)
	}
	return nil
}

// settleDropped handles tables that were dropped although goose has recorded their migration: goose
// would not make them again. With --recreate it deletes the record of that migration, so that goose
// applies it again, and the migration makes the tables that are missing. Without --recreate a
// dropped table is an error.
func (s *schema) settleDropped(cmd *cobra.Command) error {
	made := map[int64][]string{} // the tables of each migration
	for _, t := range examiner.Tables() {
		for _, version := range t.Migrations {
			made[version] = append(made[version], t.Name)
		}
	}
	do := `SELECT dropped.names FROM ` + migrations.VersionTable + `, ` + dropped
	if s.recreate {
		do = `DELETE FROM ` + migrations.VersionTable + ` USING ` + dropped + ` RETURNING dropped.names`
	}
	for _, version := range slices.Sorted(maps.Keys(made)) {
		var names string
		err := s.db.QueryRowContext(cmd.Context(), do, version, s.Schema, made[version]).Scan(&names)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking for the tables of migration %d: %w", version, err)
		}
		for bare := range strings.SplitSeq(names, ",") {
			name := pgx.Identifier{s.Schema, bare}.Sanitize()
			if !s.recreate {
				return fmt.Errorf("%s, although %s records migration %d, which makes it; restore the table, or run `dedup migrate up --recreate` to make it again, empty",
					examiner.Missing(name), migrations.VersionTable, version)
			}
			say(cmd, "%s was dropped and is made again, empty", name)
		}
	}
	return nil
}

// dropped selects the names of those tables $3 of migration $1 that are missing in schema $2, if
// the migration is recorded and any are. The condition is part of the DELETE: another process that
// applies the migration again makes its tables and records it in one transaction.
const dropped = `(
    SELECT string_agg(name, ',') AS names
      FROM unnest($3::text[]) AS name
     WHERE to_regclass(format('%I.%I', $2::text, name)) IS NULL) AS dropped
 WHERE version_id = $1::bigint AND is_applied AND dropped.names IS NOT NULL`

// place distributes the tables, all in one transaction.
func (s *schema) place(cmd *cobra.Command) error {
	tx, err := s.db.BeginTx(cmd.Context(), nil)
	if err != nil {
		return fmt.Errorf("placing the tables: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing after the COMMIT
	if _, err := tx.ExecContext(cmd.Context(), migrations.CitusSQL(s.Schema, s.colocateWith)); err != nil {
		return fmt.Errorf("placing the tables (on the coordinator, which must have Citus): %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("placing the tables: %w", err)
	}
	say(cmd, "the tables are distributed")
	return nil
}
