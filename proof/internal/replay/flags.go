package replay

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/proof/internal/replay/payment"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// flags is the command line.
type flags struct {
	recording, faults, html, databaseURL string
	through                              string
	way                                  worker.Way // of through
	external                             string
	pays                                 payment.Kind // of external
	citus                                bool
	naive, compare, json, verbose        bool
	metrics                              bool
	attempts                             int
	seed                                 uint64
	seedGiven                            bool
	kinds                                plan.Set // of faults
}

// streams are where the command writes: results to out, all else to err.
type streams struct{ out, err io.Writer }

// settle checks the command line and fills in what it leaves open, before
// anything is started.
func (f *flags) settle() (err error) {
	if f.kinds, err = plan.ParseSet(f.faults); err != nil {
		return exit.Usage("--faults: %w", err)
	}
	if f.way, err = worker.ParseWay(f.through); err != nil {
		return exit.Usage("--through: %w", err)
	}
	if !f.way.Networked() {
		if strings.Contains(f.faults, string(plan.CutConnection)) {
			return exit.Usage("--faults %s: through the %s there is no connection to cut", f.faults, f.way)
		}
		delete(f.kinds, plan.CutConnection) // which "all" has
	}
	if !f.citus {
		if strings.Contains(f.faults, string(plan.BetweenNodes)) {
			return exit.Usage("--faults %s: without --citus there is nothing between nodes", f.faults)
		}
		delete(f.kinds, plan.BetweenNodes)
	}
	if f.pays, err = payment.ParseKind(f.external); err != nil {
		return exit.Usage("--external: %w", err)
	}
	if f.pays != payment.Off && (f.way.Networked() || f.naive || f.compare || f.html != "") {
		return exit.Usage("--external: it is delivered through the registry, with dedup, and not compared")
	}
	if f.metrics && (f.way.Networked() || f.naive || f.compare || f.html != "" || f.pays != payment.Off) {
		return exit.Usage("--metrics: of what is delivered through the registry, with dedup, and neither compared nor paid outside")
	}
	if f.citus {
		if f.databaseURL != "" || f.pays != payment.Off {
			return exit.Usage("--citus: on the cluster of %s, and nothing is paid outside", citusdb.URLsVariable)
		}
		if missing := citusdb.Missing(); missing != "" {
			return exit.Usage("--citus: %s", missing)
		}
	}
	if f.attempts < 0 {
		return exit.Usage("--attempts: must not be negative")
	}
	if f.html != "" {
		f.compare = true
		if info, err := os.Stat(filepath.Dir(f.html)); err != nil || !info.IsDir() {
			return exit.Usage("--html: no folder %s", filepath.Dir(f.html))
		}
		if info, err := os.Stat(f.html); err == nil && info.IsDir() {
			return exit.Usage("--html: %s is a folder", f.html)
		}
	}
	if f.naive && f.compare {
		return exit.Usage("--naive and --compare: choose one; --html implies --compare")
	}
	if !f.seedGiven {
		f.seed = uint64(rand.Uint32()) // short enough to be typed again
	}
	return nil
}
