package effects

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/external"
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
	var t target
	var page cli.Page
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "List the effects outside of the database that somebody has to look at",
		Long:  parkedLong,
		Example: `  dedup parked --database-url postgres://app:password@localhost:5432/mydb
  dedup parked --json | jq -r 'select(.state == "parked") | .provider_key'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return listParked(cmd, &t, &page) },
	}
	t.addFlags(cmd)
	page.AddFlags(cmd)
	return cmd
}

func listParked(cmd *cobra.Command, t *target, page *cli.Page) error {
	var after position
	if err := page.Position(&after); err != nil {
		return err
	}
	ctx := cmd.Context()
	db, err := t.open(ctx, cmd.CommandPath())
	if err != nil {
		return err
	}
	defer db.pool.Close()

	var ops []external.Operation
	err = db.readOnly(ctx, func(tx pgx.Tx) error {
		var err error
		ops, err = db.tools.ParkedTx(ctx, tx, after.operation(), page.Limit+1) // the last one says that there is more
		return err
	})
	if err != nil {
		return err
	}
	more := len(ops) > page.Limit
	last := ""
	for _, op := range ops[:min(len(ops), page.Limit)] {
		e, err := newEntry(op).withCursor()
		if err != nil {
			return err
		}
		write := e.writeText
		if t.json {
			write = e.writeJSON
		}
		if err := write(cmd.OutOrStdout()); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		last = e.Cursor
	}
	switch {
	case more:
		cmd.PrintErrf("There is more: dedup parked --after %s\n", last)
	case len(ops) == 0 && page.After == "":
		cmd.PrintErrln("Nothing is parked, and nothing has happened twice.")
	case len(ops) == 0:
		cmd.PrintErrln("There is no more.")
	}
	return nil
}
