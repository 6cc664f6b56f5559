// Package scale measures what a single call on a small table does not show: how
// dedup.Do fares as its table grows, while expired records are swept, while many
// twins wait for one slow effect, and over hours of steady load.
//
// Each of its commands starts a private server with the settings of production
// and its data on a disk, and writes what it measured to the terminal and, with
// --json, to a file. What is wanted stands in the headings of the tables.
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

// finding is what a measurement found out.
type finding interface {
	// write writes it for the terminal. It returns an error where an answer or an
	// effect is wrong. A figure that is worse than wanted is no error.
	write(w io.Writer) error
}

// stand is where a measurement takes place: a server that is its own, and
// somewhere to report how far it has come.
type stand struct {
	url     string
	machine report.Machine
	out     io.Writer // for what does not wait for the end
	say     func(format string, args ...any)
}

// command makes of cmd one that starts a server with further settings, measures on it,
// and writes what was found.
func command(cmd *cobra.Command, settings map[string]string, measure func(context.Context, stand) (finding, error)) *cobra.Command {
	var file string
	cmd.Flags().StringVar(&file, "json", "", "also write the result to `FILE`")
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		found, err := serve(cmd, settings, measure)
		if err != nil {
			return err
		}
		verdict := found.write(cmd.OutOrStdout())
		if file != "" { // a bad result is the one to look at
			verdict = errors.Join(verdict, report.WriteJSON(file, found))
		}
		return verdict
	}
	return cmd
}

func serve(cmd *cobra.Command, further map[string]string, measure func(context.Context, stand) (finding, error)) (found finding, err error) {
	ctx := cmd.Context()
	// Checkpoints are spaced by time alone: with the default of 1 GB of WAL a filling
	// would force one after the other.
	settings := map[string]string{"shared_buffers": "1GB", "max_wal_size": "16GB"}
	maps.Copy(settings, further)
	s, err := server.Start(ctx, server.Options{Settings: settings})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop(ctx)) }()
	machine, err := s.Machine(ctx)
	if err != nil {
		return nil, err
	}
	say := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	say("%s", s.Source)
	return measure(ctx, stand{url: s.URL, machine: machine, out: cmd.OutOrStdout(), say: say})
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
