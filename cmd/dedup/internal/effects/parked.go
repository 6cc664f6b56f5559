package effects

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
)

const parkedLong = `List the operations outside of the database that somebody has to look at, the oldest
first: those that are parked, because they may have happened and only a person can say,
and those that happened twice. Each is named by its scope, tool and key, as
` + "`dedup resolve`" + ` takes them. The provider's key and its id, the ref, are what to search its
books for. Nothing of the input is listed; the note may have the provider's words.

A page is read by an index, in a read-only transaction, and nothing is counted. Where
there is more, the command that lists it is written to stderr.

The exit code is 0 also where nothing is listed, 1 when the list cannot be read, and 2
when the command line cannot be carried out.`

// ParkedCommand returns the command `dedup parked`.
func ParkedCommand() *cobra.Command {
	var q cli.Query
	var page cli.Page
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "List the effects outside of the database that somebody has to look at",
		Long:  parkedLong,
		Example: `  dedup parked --database-url postgres://app:password@localhost:5432/mydb
  dedup parked --json | jq -r 'select(.state == "parked") | .provider_key'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return listParked(cmd, &q, &page) },
	}
	q.AddFlags(cmd, "operation")
	page.AddFlags(cmd)
	return cmd
}

func listParked(cmd *cobra.Command, q *cli.Query, page *cli.Page) error {
	var after position
	if err := page.Position(&after); err != nil {
		return err
	}
	const nothing = "Nothing is parked, and nothing has happened twice."
	return page.List(cmd, q, "dedup parked", nothing, func(ctx context.Context, tx pgx.Tx, db *cli.Database) (found []cli.Entry, next string, err error) {
		ops, err := db.Tools.ParkedTx(ctx, tx, after.operation(), page.Limit+1) // the last one says that there is more
		for _, op := range ops[:min(len(ops), page.Limit)] {
			e, err := NewEntry(op).withCursor()
			if err != nil {
				return nil, "", err
			}
			found = append(found, e)
			if len(ops) > page.Limit {
				next = e.Cursor
			}
		}
		return found, next, err
	})
}
