package migrate

import (
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/migrations"
)

func printCommand(t *target) *cobra.Command {
	var place citus
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
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sql, err := migrations.SQL()
			if err != nil {
				return err
			}
			if place.wanted {
				sql = place.sql(t.Schema)
			} else if cmd.Flags().Changed("schema") {
				sql = fmt.Sprintf("SET search_path = %s;\n\n%s", pgx.Identifier{t.Schema}.Sanitize(), sql)
			}
			if _, err := io.WriteString(cmd.OutOrStdout(), sql); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
			return nil
		},
	}
	place.addFlags(cmd)
	return cmd
}
