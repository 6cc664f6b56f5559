// Package migrate is the command `dedup migrate`: the schema of tool_dedup,
// applied, printed and checked.
package migrate

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/migrations"
)

const long = `Create and check the library's tables.

The migrations are recorded in the table tool_dedup_version, so their numbers do not
clash with the application's migrations. Instead of this command the application's
goose can apply them (see the Go package migrations), or any other tool can run the
SQL of ` + "`dedup migrate print`" + `.

Run up as the role that will own the tables, with a direct connection instead of a
pooler such as PgBouncer. Run check as the role of the application. There is no
command to undo a migration; its SQL is in the migration's file.`

// Command returns the command `dedup migrate`.
func Command() *cobra.Command {
	var s schema
	cmd := cli.Group(&cobra.Command{
		Use:   "migrate",
		Short: "Create and check the library's tables",
		Long:  long,
		Example: `  export DATABASE_URL=postgres://user:password@localhost:5432/mydb
  dedup migrate up
  dedup migrate check`,
	}, upCommand(&s), printCommand(&s), checkCommand(&s))
	s.AddFlags(cmd)
	return cmd
}

// say prints a line of output.
func say(cmd *cobra.Command, format string, args ...any) {
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
}

func printCommand(s *schema) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the migrations as plain SQL",
		Long: `Print all migrations as SQL, to apply them by other means than goose. The SQL can
be applied again: it makes only what is missing. The command needs no database. With
--schema the SQL sets the search_path first; otherwise the tables are made in the first
schema of the session's search_path.

With --citus print instead the SQL that distributes the tables. Run it afterwards, on the
coordinator.`,
		Example: `  dedup migrate print | psql --single-transaction --set ON_ERROR_STOP=1 mydb
  dedup migrate print --citus --colocate-with bookings | psql --single-transaction --set ON_ERROR_STOP=1 mydb`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sql, err := migrations.SQL()
			switch {
			case err != nil:
				return err
			case s.citus:
				sql = migrations.CitusSQL(s.Schema, s.colocateWith)
			case cmd.Flags().Changed("schema"):
				sql = fmt.Sprintf("SET search_path = %s;\n\n%s", pgx.Identifier{s.Schema}.Sanitize(), sql)
			}
			if _, err := io.WriteString(cmd.OutOrStdout(), sql); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
			return nil
		},
	}
	s.addCitusFlags(cmd)
	return cmd
}

func checkCommand(s *schema) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check that the table is there, sound and usable",
		Long: `Look for every problem that would make a call fail or run twice: a missing or
incomplete schema, a wrong primary key, triggers, missing privileges, a standby, and so
on. List all problems, each with its fix. The exit code is 1 if there are any. Nothing
is changed.

Run it as the application's role, whose privileges it checks. An application can do the
same when it starts, with the Go function migrations.Check.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			config, err := s.config()
			if err != nil {
				return err
			}
			conn, err := pgx.ConnectConfig(ctx, config)
			if err != nil {
				return fmt.Errorf("connecting: %w", err)
			}
			defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
			if err := migrations.Check(ctx, conn, &migrations.CheckOptions{Schema: s.Schema}); err != nil {
				return err
			}
			say(cmd, "%s is sound", s.Table())
			return nil
		},
	}
}
