// Package chart is the command that draws the documents' charts from the JSON of the measurements.
package chart

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/run"
	"github.com/tooldedup/dedup/proof/bench/internal/scale"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// Command returns the command chart.
func Command() *cobra.Command {
	var growth, clients, out string
	cmd := &cobra.Command{
		Use:   "chart --growth FILE --clients FILE",
		Short: "Draw the charts of the documents from what was measured",
		Long: `Draws two charts, each from the JSON of one measurement:

  bench-growth.svg   from --growth, which "bench growth --json" wrote: a call against the size of its table
  bench-clients.svg  from --clients, which "bench run --delays 0 --clients 1,2,4,8,16,32 --json" wrote

"make bench-charts" measures and draws both.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return drawAll(growth, clients, out) },
	}
	set := cmd.Flags()
	set.StringVar(&growth, "growth", "", "the `FILE` of a growth")
	set.StringVar(&clients, "clients", "", "the `FILE` of a run with several numbers of clients")
	set.StringVar(&out, "out", "docs", "the `folder` to draw into")
	for _, name := range []string{"growth", "clients"} {
		_ = cmd.MarkFlagRequired(name) // it fails for an unknown flag only
	}
	return cmd
}

// drawAll reads all files before it writes any.
func drawAll(growth, clients, out string) error {
	grown, err := measure.ReadJSON[scale.Growth](growth)
	if err != nil {
		return err
	}
	ran, err := measure.ReadJSON[run.Report](clients)
	if err != nil {
		return err
	}
	for name, l := range map[string]lines{"bench-growth.svg": growthOf(grown), "bench-clients.svg": clientsOf(ran)} {
		svg, err := l.svg()
		if err != nil {
			return fmt.Errorf("drawing %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(out, name), svg, 0o644); err != nil {
			return fmt.Errorf("drawing: %w", err)
		}
	}
	return nil
}

// lines are series of points, joined, over a logarithmic scale.
type lines struct {
	title, xLabel, yLabel string
	logY                  bool
	series                []series
}

// series has its points in the order of X.
type series struct {
	name   string
	points plotter.XYs
}

// growthOf returns the p50 of the fewest clients.
func growthOf(g *scale.Growth) lines {
	l := lines{
		title:  "A first call against the size of its table\np50 on loopback; " + machine(g.Machine),
		xLabel: "records in the table", yLabel: "milliseconds",
	}
	if len(g.Rows) == 0 {
		return l
	}
	least := slices.MinFunc(g.Rows, func(a, b scale.GrowthRow) int { return a.Clients - b.Clients }).Clients
	for _, kind := range []scale.KeyKind{scale.OrderedKeys, scale.RandomKeys} {
		calls := series{name: fmt.Sprintf("dedup.Do, %s keys", kind)}
		bare := series{name: fmt.Sprintf("plain transaction, %s keys", kind)}
		for _, row := range g.Rows {
			if row.Keys == kind && row.Clients == least {
				at := func(p50 time.Duration) plotter.XY {
					return plotter.XY{X: float64(row.Records), Y: float64(p50) / float64(time.Millisecond)}
				}
				calls.points, bare.points = append(calls.points, at(row.Call.P50)), append(bare.points, at(row.Bare.P50))
			}
		}
		l.series = append(l.series, calls, bare)
	}
	return l
}

// clientsOf shows calls a second against clients on the loopback, logarithmic both ways: replays
// are several times faster than the rest, and each doubling of the clients is one step.
func clientsOf(r *run.Report) lines {
	l := lines{
		title:  "Calls a second against clients\nloopback, effect: one row; " + machine(r.Machine),
		xLabel: "clients that call at the same time", yLabel: "calls a second", logY: true,
	}
	for _, s := range []struct {
		way, name string
		kind      run.Kind
	}{
		{way: way.Base, kind: run.First},
		{way: "do", kind: run.First},
		{way: "statement", kind: run.First},
		{way: "textbook", kind: run.First},
		{way: "look-first", kind: run.Replay, name: "replay in one trip"},
	} {
		drawn := series{name: cmp.Or(s.name, way.Named(s.way).Title)}
		for _, c := range r.Cells {
			if c.Way == s.way && c.Kind == s.kind && c.Delay == 0 && c.PerSecond > 0 {
				drawn.points = append(drawn.points, plotter.XY{X: float64(c.Clients), Y: c.PerSecond})
			}
		}
		l.series = append(l.series, drawn)
	}
	return l
}

// machine is the part of the machine that a reader needs for comparisons.
func machine(m bed.Machine) string {
	return fmt.Sprintf("PostgreSQL %s on %d cores", m.Postgres, m.Cores)
}

// svg draws on a white card, which is readable on a dark page too.
func (l lines) svg() ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = l.title, l.xLabel, l.yLabel
	p.X.Scale, p.Y.AutoRescale = plot.LogScale{}, true
	if l.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	p.Add(plotter.NewGrid())
	measured := map[float64]string{} // by machine: there are few
	for i, s := range l.series {
		if len(s.points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return nil, err
		}
		line.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
		p.Add(line, dots)
		p.Legend.Add(s.name+", at the end "+measure.Text(s.points[len(s.points)-1].Y), line, dots)
		for _, point := range s.points {
			measured[point.X] = measure.Text(int(point.X))
		}
	}
	if len(measured) == 0 {
		return nil, errors.New("nothing of it was measured")
	}
	var ticks plot.ConstantTicks
	for _, x := range slices.Sorted(maps.Keys(measured)) {
		ticks = append(ticks, plot.Tick{Value: x, Label: measured[x]})
	}
	p.X.Tick.Marker = ticks
	if !l.logY {
		p.Y.Min = 0
	}
	canvas := vgsvg.New(720, 420)
	p.Draw(draw.New(canvas))
	var svg bytes.Buffer
	_, err := canvas.WriteTo(&svg)
	return bytes.ReplaceAll(svg.Bytes(), []byte("Liberation Serif"), []byte("Liberation Sans,Arial,Helvetica,sans-serif")), err
}
