// Package migrate is the command `dedup migrate`: the schema of tool_dedup,
// applied, rolled back, shown and checked.
package migrate

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
)

const long = `Create and check the table tool_dedup, in which the library keeps its records.

The migrations are numbered on their own and recorded in a table of their own,
tool_dedup_version, so they can live beside an application's migrations. Instead
of this command an application's goose can apply them (see the Go package
migrations), or any other tool the SQL of ` + "`dedup migrate print`" + `.

Run up and down as the role that is to own the table, and directly rather than
through a pooler such as PgBouncer. Run check as the role of the application.`

// Command returns the command `dedup migrate`.
func Command() *cobra.Command {
	var t target
	cmd := cli.Group(&cobra.Command{
		Use:   "migrate",
		Short: "Create, check or remove the table that the library needs",
		Long:  long,
		Example: `  export DATABASE_URL=postgres://user:password@localhost:5432/mydb
  dedup migrate up
  dedup migrate check`,
	}, upCommand(&t), downCommand(&t), statusCommand(&t), printCommand(&t), checkCommand(&t))
	t.AddFlags(cmd)
	return cmd
}

// say prints a line of what was asked for.
func say(cmd *cobra.Command, format string, args ...any) {
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
}
