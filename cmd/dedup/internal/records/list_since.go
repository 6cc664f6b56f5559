package records

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/inspect"
)

// listSince lists by time.
func (l *listing) listSince(cmd *cobra.Command, q *cli.Query, page *cli.Page) error {
	var after inspect.Moment
	if err := page.Position(&after); err != nil {
		return err
	}
	command := l.command() + " --since " + cmd.Flag("since").Value.String()
	return page.List(cmd, q, command, "There is no such record.", func(ctx context.Context, tx pgx.Tx, db *cli.Database) (found []cli.Entry, next string, err error) {
		var from *inspect.Moment
		if !after.At.IsZero() {
			from = &after
		}
		recent, err := l.Since(ctx, tx, db.Schema, l.since, from, page.Limit)
		if err != nil {
			return nil, "", err
		}
		for _, r := range recent.Records {
			cursor, err := cli.Cursor(inspect.Moment{At: r.CreatedAt, Key: r.Key})
			if err != nil {
				return nil, "", err
			}
			found = append(found, &record{r, cursor})
		}
		var kept []string
		for _, result := range recent.Kept {
			kept = append(kept, cli.Lasting(result))
		}
		if len(kept) > 0 {
			cmd.PrintErrf("Listed are records whose result is kept for %s.\n", strings.Join(kept, " or "))
		}
		if recent.Next != nil {
			next, err = cli.Cursor(recent.Next)
		}
		return found, next, err
	})
}
