package calls

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

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

// List returns the command `dedup list`.
func List() *cobra.Command {
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
		Args: cobra.NoArgs,
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
		return l.records(cmd, since).Write(cmd, q, page)
	case l.Outcome != "" || l.KeyHash != "" || since:
		return exit.Usage("which records? Give --scope and --tool")
	}
	return l.tools().Write(cmd, q, page)
}

// records lists by key, or by time.
func (l *listing) records(cmd *cobra.Command, since bool) *cli.List[inspect.Record] {
	list := cli.List[inspect.Record]{Command: l.command(), Nothing: "There is no such record.", Text: recordText}
	list.Read = func(ctx context.Context, db *inspect.Database, after string, limit int) (inspect.Page[inspect.Record], error) {
		return db.Records(ctx, &l.Listing, after, limit)
	}
	if since {
		list.Command += " --since " + cmd.Flag("since").Value.String()
		list.Read = func(ctx context.Context, db *inspect.Database, after string, limit int) (inspect.Page[inspect.Record], error) {
			page, kept, err := db.Since(ctx, &l.Listing, l.since, after, limit)
			var lasting []string
			for _, result := range kept {
				lasting = append(lasting, inspect.Lasting(result))
			}
			if len(kept) > 0 {
				cmd.PrintErrf("Listed are records whose result is kept for %s.\n", strings.Join(lasting, " or "))
			}
			return page, err
		}
	}
	return &list
}

func recordText(r *inspect.Record) []string {
	size := ""
	if r.ResultBytes != nil {
		size = fmt.Sprintf("%d bytes", *r.ResultBytes)
	}
	return []string{inspect.Name(r.Scope, r.Tool, r.Key), "state", r.State, "created", moment(r.CreatedAt, r.Now), "result", size}
}

// tools lists which scopes and tools have records.
func (l *listing) tools() *cli.List[inspect.ScopedTool] {
	return &cli.List[inspect.ScopedTool]{
		Command: l.command(), Nothing: "There is no record.",
		Read: func(ctx context.Context, db *inspect.Database, after string, limit int) (inspect.Page[inspect.ScopedTool], error) {
			return db.WithRecords(ctx, inspect.ScopedTool{Scope: l.Scope, Tool: l.Tool}, after, limit)
		},
		Text: func(t *inspect.ScopedTool) []string {
			return []string{inspect.Word(t.Scope) + " " + inspect.Word(t.Tool)}
		},
	}
}

// command is what lists this.
func (l *listing) command() string {
	command := "dedup list"
	for _, flag := range []struct{ name, value string }{{"scope", l.Scope}, {"tool", l.Tool}, {"outcome", l.Outcome}, {"key-hash", l.KeyHash}} {
		if flag.value != "" {
			command += " --" + flag.name + " " + inspect.Word(flag.value)
		}
	}
	return command
}
