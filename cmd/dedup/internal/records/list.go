package records

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const listLong = `List the records of one tool in one scope, the greatest key first. Keys of NewKey and TimedKey
begin with their time, so that the newest come first. Keys that were derived have no order
that means anything.

A page is read by the primary key, in a read-only transaction, and nothing is counted. With
--outcome at most 20,000 records are looked at for a page. Where there is more, the command
that lists it is written to stderr. Results are not read.

The exit code is 0 also where nothing is listed, 1 when the list cannot be read, and 2 when
the command line cannot be carried out.`

// listing is what the command line says.
type listing struct{ inspect.Listing }

// ListCommand returns the command `dedup list`.
func ListCommand() *cobra.Command {
	var q cli.Query
	var page cli.Page
	var l listing
	cmd := &cobra.Command{
		Use:   "list --scope SCOPE --tool TOOL",
		Short: "List the records of a tool, the newest first",
		Long:  listLong,
		Example: `  dedup list --scope acme --tool refund
  dedup list --scope acme --tool refund --outcome refused --json | jq -r .key`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd, &q, &page) },
	}
	q.AddFlags(cmd, "record")
	page.AddFlags(cmd)
	cmd.Flags().StringVar(&l.Scope, "scope", "", "`name` of the scope")
	cmd.Flags().StringVar(&l.Tool, "tool", "", "`name` of the tool")
	cmd.Flags().StringVar(&l.Outcome, "outcome", "", "list only records with this `outcome`: "+strings.Join(inspect.Outcomes, ", "))
	_ = cmd.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions(inspect.Outcomes, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// position is where a record stands in the list.
type position struct{ Key string }

func (l *listing) run(cmd *cobra.Command, q *cli.Query, page *cli.Page) error {
	var after position
	switch {
	case l.Scope == "" || l.Tool == "":
		return exit.Usage("which records? Give --scope and --tool")
	case l.Outcome != "" && !slices.Contains(inspect.Outcomes, l.Outcome):
		return exit.Usage("--outcome must be one of: %s", strings.Join(inspect.Outcomes, ", "))
	}
	if err := page.Position(&after); err != nil {
		return err
	}
	return page.List(cmd, q, l.command(), "There is no such record.", func(ctx context.Context, tx pgx.Tx, db *cli.Database) (found []cli.Entry, next string, err error) {
		records, last, err := l.Page(ctx, tx, db.Schema, after.Key, page.Limit)
		if err != nil {
			return nil, "", err
		}
		for _, r := range records {
			cursor, err := cli.Cursor(position{r.Key})
			if err != nil {
				return nil, "", err
			}
			found = append(found, &record{r, cursor})
		}
		if last != "" {
			next, err = cli.Cursor(position{last})
		}
		return found, next, err
	})
}

func (l *listing) command() string {
	command := "dedup list --scope " + cli.Word(l.Scope) + " --tool " + cli.Word(l.Tool)
	if l.Outcome != "" {
		command += " --outcome " + l.Outcome
	}
	return command
}

// record is a record as --json writes it. Its fields are stable: more may come, none goes.
type record struct {
	inspect.Record
	// Cursor is what `dedup list --after` goes on from.
	Cursor string `json:"cursor,omitempty"`
}

// WriteText implements [cli.Entry].
func (r *record) WriteText(out io.Writer) error {
	return cli.WriteText(out, cli.Name(r.Scope, r.Tool, r.Key),
		cli.Field{Label: "state", Text: r.State},
		cli.Field{Label: "created", Text: moment(r.CreatedAt, r.Now)},
		cli.Field{Label: "result", Text: size(r.ResultBytes)},
	)
}

// moment is a time and how long ago it was. The time is written in full, as --created-at
// wants it.
func moment(at, now time.Time) string {
	text := at.UTC().Format(time.RFC3339Nano)
	if age := now.Sub(at).Round(time.Second); age >= 0 {
		return fmt.Sprintf("%s (%s ago)", text, age)
	}
	return fmt.Sprintf("%s (in %s)", text, at.Sub(now).Round(time.Second))
}

func size(bytes *int64) string {
	if bytes == nil {
		return ""
	}
	return fmt.Sprintf("%d bytes", *bytes)
}
