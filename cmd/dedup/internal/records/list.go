package records

import (
	"context"
	"fmt"
	"io"
	"regexp"
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
begin with their time, so that the newest come first.

With --since they are listed by time, the newest first: how long the tool keeps its records is
read from 100 of them, and records with another retention are not listed. --key-hash takes the
hash of a log line, a span or an error.

With a --scope alone its tools are listed that have records, with a --tool alone its scopes,
and with neither all scopes and tools. A call in flight has no record.

With --outcome, --key-hash or --since at most 20,000 records are looked at for a page, and 1,000
scopes with a --tool alone. Where there is more, the command that lists it is written to stderr.
Results are not read.`

// listing is what the command line says.
type listing struct {
	inspect.Listing
	since time.Duration
}

// ListCommand returns the command `dedup list`.
func ListCommand() *cobra.Command {
	var q cli.Query
	var page cli.Page
	var l listing
	cmd := &cobra.Command{
		Use:   "list [--scope SCOPE] [--tool TOOL]",
		Short: "List the records of a tool, or which scopes and tools have records",
		Long:  listLong,
		Example: `  dedup list --scope acme --tool refund --since 10m
  dedup list --scope acme --tool refund --key-hash d860c2f71020f5e9
  dedup list --scope acme --tool refund --outcome refused --json | jq -r .key
  dedup list --tool refund`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd, &q, &page) },
	}
	q.AddFlags(cmd, "record")
	page.AddFlags(cmd)
	cmd.Flags().StringVar(&l.Scope, "scope", "", "`name` of the scope")
	cmd.Flags().StringVar(&l.Tool, "tool", "", "`name` of the tool")
	cmd.Flags().StringVar(&l.Outcome, "outcome", "", "list only records with this `outcome`: "+strings.Join(inspect.Outcomes, ", "))
	cmd.Flags().StringVar(&l.KeyHash, "key-hash", "", "list only records whose key has this `hash`")
	cli.AddDuration(cmd, &l.since, "since", 0, "list by time, and only what was created so long ago or later")
	_ = cmd.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions(inspect.Outcomes, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

var keyHash = regexp.MustCompile(`^[0-9a-f]{16}$`)

func (l *listing) run(cmd *cobra.Command, q *cli.Query, page *cli.Page) error {
	since := cmd.Flags().Changed("since")
	switch {
	case l.Outcome != "" && !slices.Contains(inspect.Outcomes, l.Outcome):
		return exit.Usage("--outcome must be one of: %s", strings.Join(inspect.Outcomes, ", "))
	case l.KeyHash != "" && !keyHash.MatchString(l.KeyHash):
		return exit.Usage("--key-hash must be 16 hex digits, as the log has them")
	case since && l.since <= 0:
		return exit.Usage("--since must be more than 0")
	case l.Scope != "" && l.Tool != "":
	case l.Outcome != "" || l.KeyHash != "" || since:
		return exit.Usage("which records? Give --scope and --tool")
	default:
		return l.listTools().Write(cmd, q, page)
	}
	if since {
		return l.listSince(cmd).Write(cmd, q, page)
	}
	return l.listByKey().Write(cmd, q, page)
}

func (l *listing) listByKey() *cli.List[byKey] {
	list := cli.List[byKey]{Command: l.command(), Nothing: "There is no such record."}
	list.Read = func(ctx context.Context, tx pgx.Tx, db *cli.Database, after byKey, limit int) (found []cli.Item[byKey], next *byKey, err error) {
		records, last, err := l.Page(ctx, tx, db.Schema, after.Key, limit)
		for _, r := range records {
			found = append(found, cli.Item[byKey]{Entry: &record{Record: r}, At: byKey{r.Key}})
		}
		if last != "" {
			next = &byKey{last}
		}
		return found, next, err
	}
	return &list
}

// byKey is where a record stands in the list.
type byKey struct{ Key string }

// listSince lists by time.
func (l *listing) listSince(cmd *cobra.Command) *cli.List[inspect.Moment] {
	list := cli.List[inspect.Moment]{Command: l.command() + " --since " + cmd.Flag("since").Value.String(), Nothing: "There is no such record."}
	list.Read = func(ctx context.Context, tx pgx.Tx, db *cli.Database, after inspect.Moment, limit int) (found []cli.Item[inspect.Moment], next *inspect.Moment, err error) {
		recent, err := l.Since(ctx, tx, db.Schema, l.since, after, limit)
		for _, r := range recent.Records {
			found = append(found, cli.Item[inspect.Moment]{Entry: &record{Record: r}, At: inspect.Moment{At: r.CreatedAt, Key: r.Key}})
		}
		var kept []string
		for _, result := range recent.Kept {
			kept = append(kept, cli.Lasting(result))
		}
		if len(kept) > 0 {
			cmd.PrintErrf("Listed are records whose result is kept for %s.\n", strings.Join(kept, " or "))
		}
		return found, recent.Next, err
	}
	return &list
}

// listTools lists which scopes and tools have records.
func (l *listing) listTools() *cli.List[inspect.ScopedTool] {
	list := cli.List[inspect.ScopedTool]{Command: l.command(), Nothing: "There is no record."}
	list.Read = func(ctx context.Context, tx pgx.Tx, db *cli.Database, after inspect.ScopedTool, limit int) (found []cli.Item[inspect.ScopedTool], next *inspect.ScopedTool, err error) {
		tools, last, err := inspect.Tools(ctx, tx, db.Schema, inspect.ScopedTool{Scope: l.Scope, Tool: l.Tool}, after, limit)
		for _, t := range tools {
			found = append(found, cli.Item[inspect.ScopedTool]{Entry: &scopedTool{Scope: t.Scope, Tool: t.Tool}, At: t})
		}
		if last != (inspect.ScopedTool{}) {
			next = &last
		}
		return found, next, err
	}
	return &list
}

// command is what lists this.
func (l *listing) command() string {
	command := "dedup list"
	for _, flag := range []struct{ name, value string }{{"scope", l.Scope}, {"tool", l.Tool}, {"outcome", l.Outcome}, {"key-hash", l.KeyHash}} {
		if flag.value != "" {
			command += " --" + flag.name + " " + cli.Word(flag.value)
		}
	}
	return command
}

// record is a record as --json writes it. Its fields are stable: more may come, none goes.
type record struct {
	inspect.Record
	cli.Position
}

// WriteText implements [cli.Entry].
func (r *record) WriteText(out io.Writer) error {
	return cli.WriteText(out, cli.Name(r.Scope, r.Tool, r.Key),
		"state", r.State,
		"created", moment(r.CreatedAt, r.Now),
		"result", size(r.ResultBytes),
	)
}

// scopedTool is a tool in a scope as --json writes it. Its fields are stable: more may come,
// none goes.
type scopedTool struct {
	Scope string `json:"scope"`
	Tool  string `json:"tool"`
	cli.Position
}

// WriteText implements [cli.Entry].
func (s *scopedTool) WriteText(out io.Writer) error {
	_, err := fmt.Fprintln(out, cli.Word(s.Scope), cli.Word(s.Tool))
	return err
}

// moment is a time and how long ago it was. The time is written in full, as --created-at
// wants it.
func moment(at, now time.Time) string {
	text := at.UTC().Format(time.RFC3339Nano)
	if age := now.Sub(at).Round(time.Second); age >= 0 {
		return fmt.Sprintf("%s (%s ago)", text, cli.Lasting(age))
	}
	return fmt.Sprintf("%s (in %s)", text, cli.Lasting(at.Sub(now)))
}

func size(bytes *int64) string {
	if bytes == nil {
		return ""
	}
	return fmt.Sprintf("%d bytes", *bytes)
}
