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

const long = `Create and check the table tool_dedup, in which the library keeps its records.

The migrations are numbered on their own and recorded in a table of their own,
tool_dedup_version, so they can live beside an application's migrations. Instead
of this command an application's goose can apply them (see the Go package
migrations), or any other tool the SQL of ` + "`dedup migrate print`" + `.

Run up as the role that is to own the table, and directly rather than through a
pooler such as PgBouncer. Run check as the role of the application. What undoes a
migration is in its file, for goose and for psql.`

// Command returns the command `dedup migrate`.
func Command() *cobra.Command {
	var s schema
	cmd := cli.Group(&cobra.Command{
		Use:   "migrate",
		Short: "Create and check the table that the library needs",
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
		Long: `Print all migrations as SQL, for those who apply schema changes by other means
than goose. No database is needed. With --schema the SQL sets the search_path
first; otherwise the table goes where the session's search_path leads.

With --citus it prints what comes after them on a Citus cluster instead, to be run on the
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
		Long: `Look for everything that would make a call fail, or run twice: a missing or half
applied schema, a wrong primary key, triggers, missing privileges, a standby, and
so on. All problems are listed at once, each with its fix, and the exit code is 1.
Nothing is changed.

Privileges are those of the role that connects: run it as the application's. An
application can do the same when it starts, with the Go function
migrations.Check.`,
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
