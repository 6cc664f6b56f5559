package cli

import (
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/exit"
)

// IdentityArgs is for cobra.Command.Args: it wants a scope, a tool and a key. The error is an
// [*exit.UsageError].
func IdentityArgs(of string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 3 {
			return exit.Usage("which %s? Give its SCOPE, TOOL and KEY", of)
		}
		return nil
	}
}

// AddActor adds the flag that names who acts, which is the system's user where it is not
// given.
func AddActor(cmd *cobra.Command, actor *string) {
	var name string
	if who, err := user.Current(); err == nil {
		name = who.Username
	}
	cmd.Flags().StringVar(actor, "actor", name, "`name` of who does it, for the audit")
}

// AddOrder adds the flag that says in which order the processes make calls.
func AddOrder(cmd *cobra.Command, opts *dedup.Options) {
	cmd.Flags().BoolFunc("claim-first", "the processes that call use Options.Order ClaimFirst", func(text string) error {
		claim, err := strconv.ParseBool(text)
		if claim {
			opts.Order = dedup.ClaimFirst
		}
		return err
	})
}
