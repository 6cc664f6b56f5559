// Package draw is the command that makes the charts of the documents from the
// JSON that the measurements have written.
package draw

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/bench/internal/report"
)

// Options names the files that are read, and the folder that is written to.
type Options struct{ Run, Growth, Clients, Out string }

// Command returns the command chart.
func Command() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "chart --run FILE --growth FILE --clients FILE",
		Short: "Draw the charts of the documents from what was measured",
		Long: `Draws three charts, each from the JSON of one measurement:

  bench-ways.svg     from --run, which "run --json" wrote: the ways beside the plain transaction, by delay
  bench-growth.svg   from --growth, which "growth --json" wrote: a call against the size of its table
  bench-clients.svg  from --clients, which "run --delays 0 --clients 1,2,4,8,16,32 --json" wrote

"make bench-charts" measures and draws all of them.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.draw() },
	}
	set := cmd.Flags()
	set.StringVar(&o.Run, "run", "", "the `FILE` of a run over several delays")
	set.StringVar(&o.Growth, "growth", "", "the `FILE` of a growth")
	set.StringVar(&o.Clients, "clients", "", "the `FILE` of a run with several numbers of clients")
	set.StringVar(&o.Out, "out", "docs", "the `folder` to draw into")
	for _, name := range []string{"run", "growth", "clients"} {
		_ = cmd.MarkFlagRequired(name) // which fails for an unknown flag only
	}
	return cmd
}

// draw reads everything before it writes anything.
func (o Options) draw() error {
	ways, err := read("--run", o.Run, waysChart)
	if err != nil {
		return err
	}
	growth, err := read("--growth", o.Growth, growthChart)
	if err != nil {
		return err
	}
	clients, err := read("--clients", o.Clients, clientsChart)
	if err != nil {
		return err
	}
	for name, svg := range map[string]string{"bench-ways.svg": ways.svg(), "bench-growth.svg": growth.svg(), "bench-clients.svg": clients.svg()} {
		if err := os.WriteFile(filepath.Join(o.Out, name), []byte(svg), 0o644); err != nil {
			return fmt.Errorf("drawing: %w", err)
		}
	}
	return nil
}

// read makes a chart of the result in a flag's file.
func read[R, C any](flag, file string, chart func(*R) (C, error)) (C, error) {
	r, err := report.ReadJSON[R](file)
	if err != nil {
		return *new(C), err
	}
	c, err := chart(r)
	if err != nil {
		err = fmt.Errorf("%s %s: %w", flag, file, err)
	}
	return c, err
}
