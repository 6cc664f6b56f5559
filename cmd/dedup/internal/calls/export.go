package calls

import (
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const exportLong = `Write everything that is stored of a scope, or of one tool in it: a line of JSON for each call,
ordered by tool and key. A line has the call's scope, tool and key, the outcome, times and answer
of its record, and its effect outside the database with its input. Fingerprints and the audit are
not written; ` + "`dedup audit --scope … --json`" + ` has the audit.

The answers and inputs may be personal data. The command reads only, page by page, in a
transaction for each page: a call that is made meanwhile may be missing. --after continues an
export that was interrupted, with the cursor of its last line.`

// exportPage is the number of calls that are read at once. An answer may be large.
const exportPage = 100

// Export returns the command `dedup export`.
func Export() *cobra.Command {
	var q cli.Query
	var f inspect.Filter
	cmd := q.Command(&cobra.Command{
		Use:   "export --scope SCOPE [--tool TOOL]",
		Short: "Write everything that is stored of a scope as JSON lines",
		Long:  exportLong,
		Example: `  dedup export --scope acme > acme.jsonl
  dedup export --scope acme --tool refund | jq -r 'select(.outcome == "done") | .result'`,
		PreRunE: func(*cobra.Command, []string) error {
			if f.Scope == "" {
				return exit.Usage("give a --scope")
			}
			return nil
		},
	}, "", func(cmd *cobra.Command, db *inspect.Database, _ []string) error {
		q.JSON = true
		for {
			page, err := db.Export(cmd.Context(), &f, q.After, exportPage)
			if err != nil {
				return cli.Explained(db, err)
			}
			for i := range page.Entries {
				if err := q.Write(cmd, &page.Entries[i], nil); err != nil {
					return err
				}
			}
			if q.After = page.Next; q.After == "" {
				return nil
			}
		}
	})
	addScope(cmd, &f)
	cmd.Flags().StringVar(&q.After, "after", "", "write the calls after this `cursor`, which each line has")
	return cmd
}

// addScope adds the flags that name a scope, or a tool in it.
func addScope(cmd *cobra.Command, f *inspect.Filter) {
	cmd.Flags().StringVar(&f.Scope, "scope", "", "`name` of the scope")
	cmd.Flags().StringVar(&f.Tool, "tool", "", "`name` of the tool; default: all tools of the scope")
}
