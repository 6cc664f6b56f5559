package calls

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const listLong = `List the records of one tool in one scope, in descending key order. Keys of NewKey and TimedKey
begin with their time, so the newest come first.

With --since the records are listed by time, newest first. The command reads the tool's
retention from 100 of its records and does not list records with another retention. --key-hash
takes the hash from a log line, a span or an error.

With only --scope, the tools that have records are listed; with only --tool, the scopes; with
neither, all scopes and tools. A call in flight has no record.

With --outcome, --key-hash or --since a page is made of at most 20,000 records, and with only
--tool of at most 1,000 scopes. If there are more, the command for the next page is written to
stderr. Results are not read.`

// listing has the flags of `dedup list`.
type listing struct {
	cli.Query
	inspect.Filter
}

// List returns the command `dedup list`.
func List() *cobra.Command {
	var l listing
	cmd := l.Command(&cobra.Command{
		Use:   "list [--scope SCOPE] [--tool TOOL]",
		Short: "List the records of a tool, or the scopes and tools that have records",
		Long:  listLong,
		Example: `  dedup list --scope acme --tool refund --since 10m
  dedup list --scope acme --tool refund --key-hash d860c2f71020f5e9
  dedup list --scope acme --tool refund --outcome refused --json | jq -r .key
  dedup list --tool refund`,
		PreRunE: l.check,
	}, "record", l.run)
	l.AddPage(cmd)
	cmd.Flags().StringVar(&l.Scope, "scope", "", "`name` of the scope")
	cmd.Flags().StringVar(&l.Tool, "tool", "", "`name` of the tool")
	cmd.Flags().StringVar(&l.Outcome, "outcome", "", "list only records with this `outcome`: "+strings.Join(inspect.Outcomes, ", "))
	cmd.Flags().StringVar(&l.KeyHash, "key-hash", "", "list only records whose key has this `hash`")
	cli.AddDuration(cmd, &l.Since, "since", 0, "list by time, and only records created in this period")
	_ = cmd.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions(inspect.Outcomes, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

var keyHash = regexp.MustCompile(`^[0-9a-f]{16}$`)

func (l *listing) check(cmd *cobra.Command, _ []string) error {
	switch {
	case l.Outcome != "" && !slices.Contains(inspect.Outcomes, l.Outcome):
		return exit.Usage("--outcome must be one of: %s", strings.Join(inspect.Outcomes, ", "))
	case l.KeyHash != "" && !keyHash.MatchString(l.KeyHash):
		return notAHash
	case l.Since == 0 && cmd.Flags().Changed("since"):
		return exit.Usage("--since must be more than 0")
	case !l.one() && (l.Outcome != "" || l.KeyHash != "" || l.Since != 0):
		return exit.Usage("which records? Give --scope and --tool")
	}
	return nil
}

// one reports whether it is of one tool of one scope, whose records are listed.
func (l *listing) one() bool { return l.Scope != "" && l.Tool != "" }

func (l *listing) run(cmd *cobra.Command, db *inspect.Database, _ []string) error {
	since := ""
	if l.Since != 0 {
		since = cmd.Flag("since").Value.String()
	}
	command := cli.CommandLine("dedup list", "scope", l.Scope, "tool", l.Tool, "outcome", l.Outcome, "key-hash", l.KeyHash, "since", since)
	if !l.one() {
		page, err := db.WithRecords(cmd.Context(), inspect.ScopedTool{Scope: l.Scope, Tool: l.Tool}, l.After, l.Limit)
		if err != nil {
			return cli.Explained(db, err)
		}
		return cli.WritePage(cmd, &l.Query, page, command, "There is no record.", toolText)
	}
	page, kept, err := db.Records(cmd.Context(), &l.Filter, l.After, l.Limit)
	if err != nil {
		return cli.Explained(db, err)
	}
	if kept != nil {
		var lasting []string
		for _, result := range kept {
			lasting = append(lasting, inspect.Lasting(result))
		}
		cmd.PrintErrf("Only records whose result is kept for %s are listed.\n", strings.Join(lasting, " or "))
	}
	return cli.WritePage(cmd, &l.Query, page, command, "There is no such record.", recordText)
}

func toolText(t *inspect.ScopedTool) []string {
	return []string{inspect.Word(t.Scope) + " " + inspect.Word(t.Tool)}
}

func recordText(r *inspect.Record) []string {
	size := ""
	if r.ResultBytes != nil {
		size = fmt.Sprintf("%d bytes", *r.ResultBytes)
	}
	return []string{inspect.Name(r.Scope, r.Tool, r.Key), "state", r.State, "created", moment(r.CreatedAt, r.Now), "result", size}
}
