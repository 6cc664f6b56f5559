package effects

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/exit"
)

const parkedLong = `List the operations outside of the database that somebody has to look at, the oldest
first: those that are parked, because they may have happened and only a person can say,
and those that happened twice. The provider's key and its id, the ref, are what to search its
books for. Nothing of the input is listed; the note may have the provider's words.

With --open those are listed that have no answer and are not parked, of the age of
--older-than: what is accepted and not done, and what is tried without an answer.
` + "`dedup resolve`" + ` takes these too, while no attempt is under way.

Where there is more, the command that lists it is written to stderr.`

// ParkedCommand returns the command `dedup parked`.
func ParkedCommand() *cobra.Command {
	var q cli.Query
	var page cli.Page
	var of openOnes
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "List the effects outside of the database that somebody has to look at",
		Long:  parkedLong,
		Example: `  dedup parked --database-url postgres://app:password@localhost:5432/mydb
  dedup parked --open --older-than 1h
  dedup parked --json | jq -r 'select(.state == "parked") | .provider_key'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return of.run(cmd, &q, &page) },
	}
	q.AddFlags(cmd, "operation")
	page.AddFlags(cmd)
	cmd.Flags().BoolVar(&of.open, "open", false, "list what has no answer and is not parked")
	cmd.Flags().DurationVar(&of.olderThan, "older-than", 0, "with --open: how old it is at least")
	return cmd
}

// openOnes selects the operations without an answer, by their age.
type openOnes struct {
	open      bool
	olderThan time.Duration
}

// place is where an operation stands in the list.
type place struct {
	Since            time.Time
	Scope, Tool, Key string
}

func (o *openOnes) run(cmd *cobra.Command, q *cli.Query, page *cli.Page) error {
	switch {
	case o.olderThan < 0:
		return exit.Usage("--older-than must not be negative")
	case o.olderThan > 0 && !o.open:
		return exit.Usage("--older-than goes with --open")
	}
	list := cli.List[place]{Command: "dedup parked", Nothing: "Nothing is parked, and nothing has happened twice."}
	if o.open {
		list.Command, list.Nothing = fmt.Sprintf("dedup parked --open --older-than %s", o.olderThan), "Nothing is open."
	}
	list.Read = func(ctx context.Context, tx pgx.Tx, db *cli.Database, after place, limit int) (found []cli.Item[place], next *place, err error) {
		ops, err := o.read(ctx, tx, db.Tools, after, limit+1) // the last one says that there is more
		for _, op := range ops[:min(len(ops), limit)] {
			since := op.ChangedAt
			if o.open {
				since = op.CreatedAt
			}
			e := NewEntry(op)
			found = append(found, cli.Item[place]{Entry: &e, At: place{since.UTC(), op.Scope, op.Tool, op.Key}})
		}
		if len(ops) > limit {
			next = &found[limit-1].At
		}
		return found, next, err
	}
	return list.Write(cmd, q, page)
}

func (o *openOnes) read(ctx context.Context, tx pgx.Tx, tools *external.Tools, after place, limit int) ([]external.Operation, error) {
	from := external.Operation{Scope: after.Scope, Tool: after.Tool, Key: after.Key, ChangedAt: after.Since, CreatedAt: after.Since}
	if o.open {
		return tools.OpenTx(ctx, tx, from, o.olderThan, limit)
	}
	return tools.ParkedTx(ctx, tx, from, limit)
}
