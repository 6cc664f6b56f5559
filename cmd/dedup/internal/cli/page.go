package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

// Page says which part of a list a command line asks for.
type Page struct {
	Limit int
	// After is the cursor of the entry before the first one.
	After string
}

// AddFlags adds the flags that name the page to a command.
func (p *Page) AddFlags(cmd *cobra.Command) {
	AddLimit(cmd, &p.Limit, "how many are listed at most")
	cmd.Flags().StringVar(&p.After, "after", "", "list what comes after the entry with this `cursor`, which --json writes for each")
}

// AddLimit adds the flag that bounds a list.
func AddLimit(cmd *cobra.Command, limit *int, usage string) {
	cmd.Flags().IntVar(limit, "limit", 100, usage+", 1 to 1000")
}

// CheckLimit returns an [*exit.UsageError] for another limit.
func CheckLimit(limit int) error {
	if limit < 1 || limit > 1000 {
		return exit.Usage("--limit must be 1 to 1000")
	}
	return nil
}

// List is a list that is written a page at a time.
type List[T any] struct {
	// Command lists it, with --after for more, and Nothing is said of an empty one.
	Command, Nothing string
	// Read reads at most so many entries that come after a cursor.
	Read func(ctx context.Context, db *inspect.Database, after string, limit int) (inspect.Page[T], error)
	// Text is what [Query.Write] is given of an entry.
	Text func(*T) []string
}

// Write writes the page of a list, and says on stderr whether there is more.
func (l *List[T]) Write(cmd *cobra.Command, q *Query, p *Page) error {
	if err := CheckLimit(p.Limit); err != nil {
		return err
	}
	return q.With(cmd, func(ctx context.Context, db *inspect.Database) error {
		page, err := l.Read(ctx, db, p.After, p.Limit)
		if err != nil {
			return q.Explained(err)
		}
		for i := range page.Entries {
			if err := q.Write(cmd, &page.Entries[i], l.Text(&page.Entries[i])); err != nil {
				return err
			}
		}
		switch {
		case page.Next != "":
			cmd.PrintErrf("There is more: %s --after %s\n", l.Command, page.Next)
		case len(page.Entries) == 0 && p.After == "":
			cmd.PrintErrln(l.Nothing)
		case len(page.Entries) == 0:
			cmd.PrintErrln("There is no more.")
		}
		return nil
	})
}
