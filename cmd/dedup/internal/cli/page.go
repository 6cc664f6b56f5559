package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/exit"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
	// maxTimeout is what statement_timeout takes.
	maxTimeout = math.MaxInt32 * time.Millisecond
)

// Page says which part of a list a command line asks for. Lists are read by an index, a page
// at a time, and never counted.
type Page struct {
	Limit int
	// After is the cursor of the entry before the first one.
	After string
}

// AddFlags adds the flags that name the page to a command.
func (p *Page) AddFlags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.Limit, "limit", defaultLimit, "how many are listed at most, 1 to 1000")
	cmd.Flags().StringVar(&p.After, "after", "", "list what comes after the entry with this `cursor`, which --json writes for each")
}

// Position is where an entry of a list stands. It is embedded in what --json writes.
type Position struct {
	// Cursor is what --after goes on from.
	Cursor string `json:"cursor,omitempty"`
}

// Stand gives an entry its place.
func (p *Position) Stand(cursor string) { p.Cursor = cursor }

// Item is an entry of a list that stands at a place, of which its [Position] is made.
type Item[P any] struct {
	Entry interface {
		Entry
		Stand(cursor string)
	}
	At P
}

// List is a list whose entries stand at places.
type List[P any] struct {
	// Command lists it, with --after for more, and Nothing is said of an empty one.
	Command, Nothing string
	// Read reads at most so many entries that come after a place, all where that is zero. Where
	// there may be more, next is the place to go on from.
	Read func(ctx context.Context, tx pgx.Tx, db *Database, after P, limit int) (found []Item[P], next *P, err error)
}

// Write reads the page of a list in a read-only transaction and writes its entries, and says on
// stderr whether there is more.
func (l *List[P]) Write(cmd *cobra.Command, q *Query, page *Page) error {
	var after P
	if err := page.position(&after); err != nil {
		return err
	}
	return q.With(cmd, nil, func(ctx context.Context, db *Database) error {
		var found []Item[P]
		var next *P
		if err := db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
			found, next, err = l.Read(ctx, tx, db, after, page.Limit)
			return err
		}); err != nil {
			return err
		}
		for _, item := range found {
			item.Entry.Stand(cursor(item.At))
			if err := q.Write(cmd.OutOrStdout(), item.Entry); err != nil {
				return err
			}
		}
		switch {
		case next != nil:
			cmd.PrintErrf("There is more: %s --after %s\n", l.Command, cursor(*next))
		case len(found) == 0 && page.After == "":
			cmd.PrintErrln(l.Nothing)
		case len(found) == 0:
			cmd.PrintErrln("There is no more.")
		}
		return nil
	})
}

// position reads the place that a cursor stands for into a pointer, which is left alone
// where there is none. The error is an [*exit.UsageError].
func (p *Page) position(place any) error {
	if p.Limit < 1 || p.Limit > maxLimit {
		return exit.Usage("--limit must be 1 to %d", maxLimit)
	}
	if p.After == "" {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(p.After)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(place)
	}
	if err != nil {
		return exit.Usage("--after: %q is no cursor of this list", p.After)
	}
	return nil
}

// cursor is the text of a place. It says nothing to anybody but [Page.position].
func cursor(place any) string {
	text, _ := json.Marshal(place) // texts, numbers and times
	return base64.RawURLEncoding.EncodeToString(text)
}

// AddTimeout adds the flag that bounds each statement.
func AddTimeout(cmd *cobra.Command, timeout *time.Duration) {
	AddDuration(cmd, timeout, "timeout", 5*time.Second, "how long one statement may take")
}

// CheckTimeout returns an [*exit.UsageError] for a timeout that the server does not take.
func CheckTimeout(timeout time.Duration) error {
	if timeout < time.Millisecond || timeout > maxTimeout {
		return exit.Usage("--timeout must be 1ms to 24 days")
	}
	return nil
}
