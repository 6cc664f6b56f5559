package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/proof/internal/chaos/kill"
	"github.com/tooldedup/dedup/proof/internal/chaos/outside"
	"github.com/tooldedup/dedup/proof/internal/chaos/reissue"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const long = `Try to break the promise with one campaign or with all of them:

%s
Campaigns run on a server that the command starts, or on the server that
DEDUP_DATABASE_URL names. These always start their own:
%s.

Progress goes to standard error. Standard output gets one line of JSON for each
campaign. The exit code is 1 if a campaign failed: the promise was broken,
nothing was tested, or the control arm did not go wrong.`

// Command returns `proof chaos`.
func Command() *cobra.Command {
	var list strings.Builder
	var private []string
	for _, c := range campaigns {
		fmt.Fprintf(&list, "  %-16s %s\n", c.name, c.what)
		if c.server.Private {
			private = append(private, c.name)
		}
	}
	var opts options
	cmd := &cobra.Command{
		Use:   "chaos NAME|all",
		Short: "Try to break the promise on a real server",
		Long:  fmt.Sprintf(long, list.String(), strings.Join(private, ", ")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage("give the name of one campaign, or all")
			}
			return run(cmd, args[0], opts)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&opts.seed, "seed", 0, "repeat the draws of this seed; 0 draws a new seed and prints it")
	flags.IntVar(&opts.calls, "calls", 0, "about the number of deliveries or kills; 0 is the number of the long form")
	flags.StringSliceVar(&opts.arms, "arm", nil, "an arm of the campaign external to run; name a control too, without which the campaign fails; default all")
	flags.BoolVar(&opts.short, "short", false, "run the short form, as the tests do")
	return cmd
}

// WorkerCommands returns the hidden commands that are worker processes.
func WorkerCommands() []*cobra.Command {
	return []*cobra.Command{kill.Worker(), outside.Worker(), reissue.Worker()}
}

type options struct {
	seed  uint64
	calls int
	short bool
	// arms are for external.
	arms []string
}

func run(cmd *cobra.Command, name string, opts options) error {
	chosen := campaigns
	if name != "all" {
		chosen = nil
		for _, c := range campaigns {
			if c.name == name {
				chosen = []campaign{c}
			}
		}
		if chosen == nil {
			return exit.Usage("there is no campaign %q: name all or one of %s", name, strings.Join(Names(), ", "))
		}
	}
	if opts.calls < 0 {
		return exit.Usage("--calls must not be negative")
	}
	for _, arm := range opts.arms {
		if !slices.Contains(outside.Arms(), arm) {
			return exit.Usage("there is no arm %q", arm)
		}
	}
	if opts.seed == 0 {
		opts.seed = rand.Uint64N(1 << 53) // JSON keeps such a number
	}
	var failed []error
	for _, c := range chosen {
		if c.missing != nil && len(chosen) > 1 && c.missing() != "" {
			cmd.PrintErrln(c.name + ": left out: " + c.missing())
			continue
		}
		if err := runOne(cmd.Context(), cmd, c, opts); err != nil {
			failed = append(failed, fmt.Errorf("%s (seed %d): %w", c.name, opts.seed, err))
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

func runOne(ctx context.Context, cmd *cobra.Command, c campaign, opts options) error {
	var mu sync.Mutex // campaigns say lines from several goroutines
	say := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		cmd.PrintErrln(c.name + ": " + line)
	}
	server := c.server
	server.Durable = server.Durable && !opts.short
	server.Logf = func(format string, args ...any) { say(fmt.Sprintf(format, args...)) }
	l, err := lab.Open(ctx, &server)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close(ctx) }()
	p := lab.Params{Seed: opts.seed, Calls: c.calls, Short: opts.short, Arms: opts.arms, Say: say}
	if opts.short {
		p.Calls = c.short
	}
	if opts.calls > 0 {
		p.Calls = opts.calls
	}
	say(fmt.Sprintf("seed %d", p.Seed))
	started := time.Now()
	s := &lab.Score{Campaign: c.name, Seed: p.Seed, Server: l.Version, FaultsByKind: map[string]int{}, Details: map[string]any{}}
	err = c.run(ctx, l, p, s)
	err = s.Close(started, err)
	line, encodeErr := json.Marshal(s)
	if encodeErr == nil {
		fmt.Fprintln(cmd.OutOrStdout(), string(line))
	}
	return errors.Join(err, encodeErr)
}
