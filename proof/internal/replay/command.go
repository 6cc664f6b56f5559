package replay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// workerName is the hidden command with which the driver starts workers.
const workerName = "replay-worker"

const long = `Replay recorded agent sessions on a real Postgres under faults, and check every
answer and every effect.

Any recording in the format of package recording can be played. The tools of a worker are the
recorded tools: a write adds a row to a ledger in the transaction of its effect, and every tool
answers with the recorded text. The ledger and the answers show doubled, lost and wrong calls.

Each write is delivered in one to five rounds, to one, two or eight processes at
once, while answers to COMMIT are lost, connections cut, backends terminated and
worker processes killed. With dedup each write still takes effect once.
--naive runs an ordinary retry wrapper under the same plan, and --compare runs both.

--through chooses the way of a delivery to the tools of a worker: the registry in its
process, or its HTTP or MCP server, over a connection that is cut.

The replay uses the server of --database-url or of DEDUP_DATABASE_URL. Without these it finds
or starts one. It creates a new database there and drops it at the end.

The exit code is 0 if no call was doubled, lost or answered wrongly; 1 if one was, or if the
check failed; 2 for a wrong command line; 130 after Ctrl-C.`

// flags is the command line.
type flags struct {
	recording, faults, html, databaseURL string
	naive, compare, json, verbose        bool

	way   worker.Way
	seed  uint64
	kinds kindSet // of faults
}

// Command returns the command `proof replay`. It stops when its context ends.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Replay recorded agent sessions under faults and check that nothing runs twice",
		Long:  long,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				f.seed = uint64(rand.Uint32()) // short enough to be typed again
			}
			return run(cmd.Context(), &f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	set := cmd.Flags()
	set.StringVar(&f.recording, "recording", "", "`folder` of the recording (default $TAUBENCH_DIR, ../shared/taubench beside the repository, or the small one inside this program)")
	set.StringVar(&f.faults, "faults", "all", "`list` of faults, separated by commas: all, none, "+names(allKinds[:]))
	set.StringVar((*string)(&f.way), "through", string(worker.Registry), "`way` of a delivery to the tools: "+names(worker.Ways[:]))
	set.BoolVar(&f.naive, "naive", false, "deliver without dedup, as an ordinary retry wrapper does")
	set.BoolVar(&f.compare, "compare", false, "run both, naive first, and print them side by side")
	set.BoolVar(&f.json, "json", false, "print one JSON object instead of the table")
	set.StringVar(&f.html, "html", "", "write a page that shows both to `file`; implies --compare")
	set.Uint64Var(&f.seed, "seed", 0, "`number` that decides the plan (default random, and printed)")
	set.StringVar(&f.databaseURL, "database-url", "", "postgres:// `URL` of a server, whose user may create databases")
	set.BoolVar(&f.verbose, "verbose", false, "list differences and repeated deliveries")
	return cmd
}

// settle checks the command line and fills in defaults before anything is started.
func (f *flags) settle() (err error) {
	if f.kinds, err = parseKinds(f.faults); err != nil {
		return exit.Usage("--faults: %w", err)
	}
	if err := known("way", f.way, worker.Ways[:]); err != nil {
		return exit.Usage("--through: %w", err)
	}
	networked := f.way.Networked()
	compared := f.compare || f.html != ""
	switch {
	case !networked && strings.Contains(f.faults, string(cutConnection)):
		return exit.Usage("--faults %s: through the %s there is no connection to cut", f.faults, f.way)
	case f.naive && compared:
		return exit.Usage("--naive and --compare: choose one; --html implies --compare")
	}
	f.kinds[cutConnection] = f.kinds[cutConnection] && networked // "all" has both
	f.compare = compared
	if f.html == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(f.html)); err != nil || !info.IsDir() {
		return exit.Usage("--html: no folder %s", filepath.Dir(f.html))
	}
	if info, err := os.Stat(f.html); err == nil && info.IsDir() {
		return exit.Usage("--html: %s is a folder", f.html)
	}
	return nil
}

func known[T ~string](what string, value T, all []T) error {
	if slices.Contains(all, value) {
		return nil
	}
	return fmt.Errorf("unknown %s %q; known are %s", what, value, names(all))
}

// WorkerCommand returns the hidden command of the workers. It must be a command of the root, under
// its own name.
func WorkerCommand() *cobra.Command { return lab.WorkerCommand(workerName, worker.Open) }
