package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
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

// Position reads the position that a cursor stands for into a pointer, which is left alone
// where there is none. The error is an [*exit.UsageError].
func (p *Page) Position(position any) error {
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
		err = decoder.Decode(position)
	}
	if err != nil {
		return exit.Usage("--after: %q is no cursor of this list", p.After)
	}
	return nil
}

// List reads a page in a read-only transaction and writes its entries, and says on stderr
// whether there is more. read returns the cursor of the next page, empty where there is
// none. command is what lists that with --after, and nothing what is said of an empty list.
func (p *Page) List(cmd *cobra.Command, q *Query, command, nothing string,
	read func(ctx context.Context, tx pgx.Tx, db *Database) (found []Entry, next string, err error),
) error {
	ctx := cmd.Context()
	db, err := q.Open(ctx, cmd.CommandPath(), nil)
	if err != nil {
		return err
	}
	defer db.Close()

	var found []Entry
	var next string
	err = db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
		found, next, err = read(ctx, tx, db)
		return err
	})
	if err == nil {
		err = WriteAll(q, cmd.OutOrStdout(), found)
	}
	switch {
	case err != nil:
		return err
	case next != "":
		cmd.PrintErrf("There is more: %s --after %s\n", command, next)
	case len(found) == 0 && p.After == "":
		cmd.PrintErrln(nothing)
	case len(found) == 0:
		cmd.PrintErrln("There is no more.")
	}
	return nil
}

// WriteAll writes entries.
func WriteAll[E Entry](q *Query, out io.Writer, all []E) error {
	for _, one := range all {
		if err := q.Write(out, one); err != nil {
			return err
		}
	}
	return nil
}

// Cursor is the text of a position. It says nothing to anybody but [Page.Position].
func Cursor(position any) (string, error) {
	text, err := json.Marshal(position)
	return base64.RawURLEncoding.EncodeToString(text), err
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
