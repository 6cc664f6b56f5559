package calls

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const eraseLong = `Erase the answers of a scope, or of one tool in it, such as those of a tenant that leaves. Results,
refusals, inputs, provider's ids, notes, fingerprints and the reasons in the audit go. Scopes, tools,
keys and times stay until they are forgotten, so that a late retry is refused and does not run again.

Stop the scope's calls first: a call that ends later leaves its record. An effect outside the
database that is parked or open stops the command before it erases anything; see ` + "`dedup parked`" + `
and ` + "`dedup resolve`" + `.

Without --yes the command only counts, and exits with 1. With --yes, which needs a --reason, it
erases 1,000 rows at a time, for as long as that takes. An interrupted command may be run again. The
audit gets an entry for each record, with the actor and the reason.`

// erasing has the flags of `dedup erase`.
type erasing struct {
	cli.Query
	inspect.Filter
	reason, actor string
	yes           bool
}

// Erase returns the command `dedup erase`.
func Erase() *cobra.Command {
	var e erasing
	cmd := e.Command(&cobra.Command{
		Use:   "erase --scope SCOPE [--tool TOOL] [--yes --reason TEXT]",
		Short: "Erase the answers of a scope, whose calls still do not run again",
		Long:  eraseLong,
		Example: `  dedup erase --scope acme
  dedup erase --scope acme --reason 'contract ended, ticket 4711' --yes`,
		PreRunE: func(*cobra.Command, []string) error {
			switch {
			case e.Scope == "":
				return exit.Usage("give a --scope")
			case e.yes && e.reason == "":
				return exit.Usage("give a --reason")
			}
			return nil
		},
	}, "scope", e.run)
	addScope(cmd, &e.Filter)
	cmd.Flags().StringVar(&e.reason, "reason", "", "`text` for the audit, without personal data")
	cmd.Flags().BoolVar(&e.yes, "yes", false, "erase, and do not only count")
	cli.AddActor(cmd, &e.actor)
	return cmd
}

func (e *erasing) run(cmd *cobra.Command, db *inspect.Database, _ []string) error {
	if !e.yes {
		n, err := db.Erasable(cmd.Context(), &e.Filter)
		if err != nil {
			return cli.Explained(db, err)
		}
		if n == (inspect.Erasable{}) {
			return fmt.Errorf("nothing is left to erase: %s", e.nothing())
		}
		return fmt.Errorf("nothing was erased: there are %d records, %d effects outside the database, of which %d must be resolved first, and %d reasons in the audit; erase with --yes",
			n.Records, n.Effects, n.Unresolved, n.Reasons)
	}
	done, err := db.D.Erase(cmd.Context(), e.Scope, e.Tool, dedup.ChangeOptions{Reason: e.reason, Actor: e.actor})
	switch {
	case errors.Is(err, dedup.ErrInvalid):
		return exit.Usage("%w", err)
	case err != nil && done != (dedup.EraseResult{}):
		return fmt.Errorf("%w; %d records, %d effects and %d reasons were erased before: run the command again", err, done.Records, done.Effects, done.Reasons)
	case err != nil:
		return err
	}
	if done == (dedup.EraseResult{}) {
		cmd.PrintErrf("Nothing is left to erase: %s.\n", e.nothing())
		if !e.JSON {
			return nil
		}
	}
	if done.Unaudited > 0 {
		cmd.PrintErrf("The audit has no entry of %d records: there is no table tool_dedup_audit; `dedup migrate up` makes it.\n", done.Unaudited)
	}
	return e.Write(cmd, &erased{e.Scope, e.Tool, done.Records, done.Effects, done.Unaudited, done.Reasons}, []string{
		"erased: late retries are refused",
		"records", fmt.Sprint(done.Records),
		"effects", fmt.Sprint(done.Effects),
		"reasons", fmt.Sprint(done.Reasons),
	})
}

// nothing explains that Erase finds no record, no effect and no reason. The scope may be mistyped.
func (e *erasing) nothing() string {
	what := fmt.Sprintf("scope %q", e.Scope)
	if e.Tool != "" {
		what = fmt.Sprintf("tool %q of ", e.Tool) + what
	}
	return what + " has no records, or they were erased before; check the name"
}

// erased is the output of --json. Its fields are stable: later versions only add fields.
type erased struct {
	Scope     string `json:"scope"`
	Tool      string `json:"tool,omitempty"`
	Records   int64  `json:"records"`
	Effects   int64  `json:"effects"`
	Unaudited int64  `json:"unaudited"`
	Reasons   int64  `json:"reasons"`
}
