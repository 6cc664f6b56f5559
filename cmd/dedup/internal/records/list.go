package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
)

const listLong = `List the records of one tool in one scope, the greatest key first. Keys of NewKey and TimedKey
begin with their time, so that the newest come first. Keys that were derived have no order
that means anything.

A page is read by the primary key, in a read-only transaction, and nothing is counted. With
--outcome at most 100,000 records are looked at for a page. Where there is more, the command
that lists it is written to stderr. Results are not read.

The exit code is 0 also where nothing is listed, 1 when the list cannot be read, and 2 when
the command line cannot be carried out.`

// outcomes are those that a record may have.
var outcomes = []string{"done", "refused", "broken", "claimed"}

// searched is how many records are looked at for a page of one outcome.
const searched = 100_000

// listing is what the command line says.
type listing struct{ scope, tool, outcome string }

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
	cmd.Flags().StringVar(&l.scope, "scope", "", "`name` of the scope")
	cmd.Flags().StringVar(&l.tool, "tool", "", "`name` of the tool")
	cmd.Flags().StringVar(&l.outcome, "outcome", "", "list only records with this `outcome`: "+strings.Join(outcomes, ", "))
	_ = cmd.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions(outcomes, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// position is where a record stands in the list.
type position struct{ Key string }

func (l *listing) run(cmd *cobra.Command, q *cli.Query, page *cli.Page) error {
	var after position
	switch {
	case l.scope == "" || l.tool == "":
		return exit.Usage("which records? Give --scope and --tool")
	case l.outcome != "" && !slices.Contains(outcomes, l.outcome):
		return exit.Usage("--outcome must be one of: %s", strings.Join(outcomes, ", "))
	}
	if err := page.Position(&after); err != nil {
		return err
	}
	ctx := cmd.Context()
	db, err := q.Open(ctx, cmd.CommandPath(), nil)
	if err != nil {
		return err
	}
	defer db.Close()

	var found []record
	var last *string
	err = db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
		if l.outcome != "" {
			last, err = l.lastSearched(ctx, tx, db, after.Key)
		}
		if err == nil {
			found, err = l.read(ctx, tx, db, after.Key, last, page.Limit+1) // the last one says that there is more
		}
		return err
	})
	if err != nil {
		return err
	}
	more := len(found) > page.Limit
	found = found[:min(len(found), page.Limit)]
	next := ""
	for i := range found {
		if found[i].Cursor, err = cli.Cursor(position{found[i].Key}); err != nil {
			return err
		}
		next = found[i].Cursor
		if err := q.Write(cmd.OutOrStdout(), &found[i]); err != nil {
			return err
		}
	}
	if !more && last != nil {
		more = true
		if next, err = cli.Cursor(position{*last}); err != nil {
			return err
		}
	}
	switch {
	case more:
		cmd.PrintErrf("There is more: %s --after %s\n", l.command(), next)
	case len(found) == 0 && page.After == "":
		cmd.PrintErrln("There is no such record.")
	case len(found) == 0:
		cmd.PrintErrln("There is no more.")
	}
	return nil
}

func (l *listing) command() string {
	command := "dedup list --scope " + cli.Word(l.scope) + " --tool " + cli.Word(l.tool)
	if l.outcome != "" {
		command += " --outcome " + l.outcome
	}
	return command
}

// below is the condition of what comes after a key, and empty where the list begins. It is a
// part of the text: a condition that may be empty is none that an index serves.
func below(after string) string {
	if after == "" {
		return ""
	}
	return " AND key < $3::text"
}

func (l *listing) args(after string) []any {
	if after == "" {
		return []any{l.scope, l.tool}
	}
	return []any{l.scope, l.tool, after}
}

// searchedSQL finds the last key that a search goes to.
func searchedSQL(table, after string, searched int) string {
	return fmt.Sprintf(`SELECT key FROM %s
 WHERE scope = $1::text AND tool = $2::text%s
 ORDER BY key DESC OFFSET %d LIMIT 1`, table, below(after), searched-1)
}

// lastSearched is the last key that is looked at for a page; nil where all are.
func (l *listing) lastSearched(ctx context.Context, tx pgx.Tx, db *cli.Database, after string) (*string, error) {
	var last string
	err := tx.QueryRow(ctx, searchedSQL(db.Table(), after, searched), l.args(after)...).Scan(&last)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is none
	}
	return &last, err
}

// recordColumns are those of a record, in the order of its fields. The size of a result is
// read without it.
const recordColumns = `scope, tool, key, outcome, octet_length(result), encode(fingerprint, 'hex'), created_at, expires_at, forget_at, clock_timestamp()`

// listSQL reads a page. The next parameters are the outcome and the last key, where there
// are any.
func listSQL(table, after string, outcome, bounded bool, limit int) string {
	where, next := below(after), 3
	if after != "" {
		next++
	}
	if outcome {
		where += fmt.Sprintf(" AND outcome = $%d::text", next)
		next++
	}
	if bounded {
		where += fmt.Sprintf(" AND key >= $%d::text", next)
	}
	return fmt.Sprintf(`SELECT %s FROM %s
 WHERE scope = $1::text AND tool = $2::text%s
 ORDER BY key DESC LIMIT %d`, recordColumns, table, where, limit)
}

func (l *listing) read(ctx context.Context, tx pgx.Tx, db *cli.Database, after string, last *string, limit int) ([]record, error) {
	args := l.args(after)
	if l.outcome != "" {
		args = append(args, l.outcome)
	}
	if last != nil {
		args = append(args, *last)
	}
	rows, err := tx.Query(ctx, listSQL(db.Table(), after, l.outcome != "", last != nil, limit), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRecord)
}

// record is a record as --json writes it. Its fields are stable: more may come, none goes.
type record struct {
	Scope       string    `json:"scope"`
	Tool        string    `json:"tool"`
	Key         string    `json:"key"`
	State       string    `json:"state"`
	Outcome     string    `json:"outcome"`
	ResultBytes *int64    `json:"result_bytes,omitempty"`
	Fingerprint string    `json:"fingerprint"`
	CreatedAt   time.Time `json:"created_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	ForgetAt    time.Time `json:"forget_at"`
	// Cursor is what `dedup list --after` goes on from.
	Cursor string `json:"cursor,omitempty"`

	now time.Time
}

func scanRecord(row pgx.CollectableRow) (r record, err error) {
	err = row.Scan(&r.Scope, &r.Tool, &r.Key, &r.Outcome, &r.ResultBytes, &r.Fingerprint, &r.CreatedAt, &r.ExpiresAt, &r.ForgetAt, &r.now)
	r.CreatedAt, r.ExpiresAt, r.ForgetAt = r.CreatedAt.UTC(), r.ExpiresAt.UTC(), r.ForgetAt.UTC()
	switch broken := r.Outcome == "broken" || r.Outcome == "claimed"; {
	case !r.now.Before(r.ForgetAt):
		r.State = "forgotten"
	case broken:
		r.State = "broken"
	case r.ResultBytes == nil || !r.now.Before(r.ExpiresAt):
		r.State = "expired"
	default:
		r.State = r.Outcome
	}
	return r, err
}

// WriteText implements [cli.Entry].
func (r *record) WriteText(out io.Writer) error {
	return cli.WriteText(out, cli.Name(r.Scope, r.Tool, r.Key),
		cli.Field{Label: "state", Text: r.State},
		cli.Field{Label: "created", Text: moment(r.CreatedAt, r.now)},
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
