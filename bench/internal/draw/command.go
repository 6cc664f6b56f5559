package draw

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/scale"
)

// The files that are written.
const (
	waysFile    = "bench-ways.svg"
	growthFile  = "bench-growth.svg"
	clientsFile = "bench-clients.svg"
)

// Options names the files that are read, and the folder that is written to.
type Options struct{ Run, Growth, Clients, Out string }

// Command returns the command chart.
func Command() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "chart --run FILE --growth FILE --clients FILE",
		Short: "Draw the charts of the documents from what was measured",
		Long: fmt.Sprintf(`Draws three charts, each from the JSON of one measurement:

  %-18s from --run, which "run --json" wrote: the ways beside the plain transaction, by delay
  %-18s from --growth, which "growth --json" wrote: a call against the size of its table
  %-18s from --clients, which "run --delays 0 --clients 1,2,4,8,16,32 --json" wrote

"make bench-charts" measures and draws all of them.`, waysFile, growthFile, clientsFile),
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.draw() },
	}
	set := cmd.Flags()
	set.StringVar(&o.Run, "run", "", "the `FILE` of a run over several delays")
	set.StringVar(&o.Growth, "growth", "", "the `FILE` of a growth")
	set.StringVar(&o.Clients, "clients", "", "the `FILE` of a run with several numbers of clients")
	set.StringVar(&o.Out, "out", "docs", "the `folder` to draw into")
	for _, name := range []string{"run", "growth", "clients"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // there is no such flag
		}
	}
	return cmd
}

// draw reads everything before it writes anything.
func (o Options) draw() error {
	run, err := report.ReadJSON[report.Report](o.Run)
	if err != nil {
		return err
	}
	growth, err := report.ReadJSON[scale.Growth](o.Growth)
	if err != nil {
		return err
	}
	clients, err := report.ReadJSON[report.Report](o.Clients)
	if err != nil {
		return err
	}
	bars, err := waysChart(run)
	if err != nil {
		return fmt.Errorf("--run %s: %w", o.Run, err)
	}
	size, err := growthChart(growth)
	if err != nil {
		return fmt.Errorf("--growth %s: %w", o.Growth, err)
	}
	throughput, err := clientsChart(clients)
	if err != nil {
		return fmt.Errorf("--clients %s: %w", o.Clients, err)
	}
	for name, svg := range map[string]string{waysFile: bars.SVG(), growthFile: size.SVG(), clientsFile: throughput.SVG()} {
		if err := os.WriteFile(filepath.Join(o.Out, name), []byte(svg), 0o644); err != nil {
			return fmt.Errorf("drawing: %w", err)
		}
	}
	return nil
}
