// Package scale measures what a single call on a small table does not show: how
// dedup.Do fares as its table grows and while expired records are swept, what operators'
// questions cost on a large table, and how an outbox keeps up.
//
// Each of its commands starts a private server with the settings of production
// and its data on a disk, and writes what it measured to the terminal. What is
// wanted stands in the headings of the tables.
package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/server"
)

// stand is where a measurement takes place: a server that is its own, and
// somewhere to write what was found and how far it has come.
type stand struct {
	url     string
	machine report.Machine
	out     io.Writer
	say     func(format string, args ...any)
}

// command makes of cmd one that starts a server with further settings, and measures on it.
func command(cmd *cobra.Command, further map[string]string, measure func(context.Context, stand) error) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		ctx := cmd.Context()
		// Checkpoints are spaced by time alone: with the default of 1 GB of WAL a filling
		// would force one after the other.
		settings := map[string]string{"shared_buffers": "1GB", "max_wal_size": "16GB"}
		maps.Copy(settings, further)
		s, err := server.Start(ctx, server.Options{Settings: settings})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Stop(ctx)) }()
		machine, err := s.Machine(ctx)
		if err != nil {
			return err
		}
		machine.Write(cmd.OutOrStdout())
		say := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
		return measure(ctx, stand{url: s.URL, machine: machine, out: cmd.OutOrStdout(), say: say})
	}
	return cmd
}

// ratio is a/b, and 0 where there is no b to compare with.
func ratio[N ~int64 | ~float64](a, b N) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

func times(v float64) string { return fmt.Sprintf("%.2fx", v) }
