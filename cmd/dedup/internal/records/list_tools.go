package records

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/inspect"
)

// listTools lists which scopes and tools have records.
func (l *listing) listTools(cmd *cobra.Command, q *cli.Query, page *cli.Page) error {
	var after inspect.ScopedTool
	if err := page.Position(&after); err != nil {
		return err
	}
	only := inspect.ScopedTool{Scope: l.Scope, Tool: l.Tool}
	command := "dedup list"
	if l.Scope != "" {
		command += " --scope " + cli.Word(l.Scope)
	}
	if l.Tool != "" {
		command += " --tool " + cli.Word(l.Tool)
	}
	return page.List(cmd, q, command, "There is no record.", func(ctx context.Context, tx pgx.Tx, db *cli.Database) (found []cli.Entry, next string, err error) {
		tools, last, err := inspect.Tools(ctx, tx, db.Schema, only, after, page.Limit)
		if err != nil {
			return nil, "", err
		}
		for _, t := range tools {
			cursor, err := cli.Cursor(t)
			if err != nil {
				return nil, "", err
			}
			found = append(found, &scopedTool{t.Scope, t.Tool, cursor})
		}
		if last != (inspect.ScopedTool{}) {
			next, err = cli.Cursor(last)
		}
		return found, next, err
	})
}

// scopedTool is a tool in a scope as --json writes it. Its fields are stable: more may come,
// none goes.
type scopedTool struct {
	Scope string `json:"scope"`
	Tool  string `json:"tool"`
	// Cursor is what `dedup list --after` goes on from.
	Cursor string `json:"cursor,omitempty"`
}

// WriteText implements [cli.Entry].
func (s *scopedTool) WriteText(out io.Writer) error {
	_, err := fmt.Fprintln(out, cli.Word(s.Scope), cli.Word(s.Tool))
	return err
}
