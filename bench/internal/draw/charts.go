package draw

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/scale"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// inOrder are the ways from top to bottom: the library's own, and what else people
// use by how it fares. The plain transaction is the line at 1; a batch would make
// all other bars too short to compare, and is said in words.
var inOrder = []string{"statement", "do", "look-first", "textbook", "river", "redis", "dbos", "dbos2"}

const batch = "batch"

// waysChart compares first calls of one client with the plain transaction.
func waysChart(r *report.Report) (bars, error) {
	c := bars{
		title:    "Calls a second, beside the transaction without protection",
		subtitle: "first calls of 1 client, effect: one row; " + machineText(r.Machine),
		xLabel:   "times the plain transaction in the same rounds; more is better" + batchNote(r),
	}
	for _, line := range r.Lines {
		c.series = append(c.series, line.String())
	}
	for _, name := range inOrder {
		w, _ := r.Way(name)
		g, found := group{label: w.Title}, false
		for _, line := range r.Lines {
			ratio := -1.0
			if cell, ok := r.Cell(name, report.First, line.Delay, 1); ok {
				ratio, found = cell.Ratio, true
			}
			g.values = append(g.values, ratio)
		}
		if found {
			c.groups = append(c.groups, g)
		}
	}
	if len(c.groups) == 0 {
		return c, errors.New("it holds no first calls of 1 client")
	}
	return c, nil
}

// batchNote is a line of its own, and empty where no batch was measured.
func batchNote(r *report.Report) string {
	least, most := math.Inf(1), 0.0
	for _, line := range r.Lines {
		if cell, ok := r.Cell(batch, report.First, line.Delay, 1); ok {
			least, most = min(least, cell.Ratio), max(most, cell.Ratio)
		}
	}
	w, known := r.Way(batch)
	if !known || most == 0 {
		return ""
	}
	return fmt.Sprintf("\nOff the scale: %s, %s to %s times the plain transaction for each call.", w.Title, figure.Text(least), figure.Text(most))
}

// machineText is what a reader must know to compare.
func machineText(m report.Machine) string {
	return fmt.Sprintf("PostgreSQL %s on %d cores", m.Postgres, m.Cores)
}

// growthChart draws the p50 of the fewest clients.
func growthChart(g *scale.Growth) (lines, error) {
	if len(g.Rows) == 0 {
		return lines{}, errors.New("it holds no measurement")
	}
	clients := slices.MinFunc(g.Rows, func(a, b scale.GrowthRow) int { return a.Clients - b.Clients }).Clients
	c := lines{
		title:    "A first call against the size of its table",
		subtitle: fmt.Sprintf("p50 of dedup.Do, clients: %d, loopback; %s", clients, machineText(g.Machine)),
		xLabel:   "records in the table", yLabel: "milliseconds",
	}
	point := func(row scale.GrowthRow, l measure.Latency) plotter.XY {
		return plotter.XY{X: float64(row.Records), Y: float64(l.P50) / float64(time.Millisecond)}
	}
	bare := map[float64][]float64{} // of both kinds of keys, which are the same to it
	for _, kind := range []scale.KeyKind{scale.OrderedKeys, scale.RandomKeys} {
		s := series{name: fmt.Sprintf("%s keys", kind)}
		for _, row := range g.Rows {
			if row.Keys == kind && row.Clients == clients {
				s.points = append(s.points, point(row, row.Call))
				b := point(row, row.Bare)
				bare[b.X] = append(bare[b.X], b.Y)
			}
		}
		if len(s.points) > 0 {
			c.series = append(c.series, s)
		}
	}
	plain := series{name: "plain transaction"}
	for x, ys := range bare {
		plain.points = append(plain.points, plotter.XY{X: x, Y: measure.Median(ys)})
	}
	slices.SortFunc(plain.points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	c.series = append(c.series, plain)
	return c, nil
}

// clientsChart draws calls a second on the loopback against clients. It is
// logarithmic both ways: replays are several times all the others, and doubling the
// clients is a step.
func clientsChart(r *report.Report) (lines, error) {
	c := lines{
		title:    "Calls a second against clients",
		subtitle: "loopback, effect: one row; " + machineText(r.Machine),
		xLabel:   "clients that call at the same time", yLabel: "calls a second",
		logY: true,
	}
	for _, line := range []struct {
		way  string
		kind report.Kind
		name string
	}{
		{way.Base, report.First, "plain transaction"},
		{"do", report.First, ""},
		{"statement", report.First, ""},
		{"textbook", report.First, ""},
		{"look-first", report.Replay, "replay in one trip"},
	} {
		w, _ := r.Way(line.way)
		s := series{name: cmp.Or(line.name, w.Title)}
		for _, cell := range r.Cells {
			if cell.Way == line.way && cell.Kind == line.kind && cell.Delay == 0 && cell.PerSecond > 0 {
				s.points = append(s.points, plotter.XY{X: float64(cell.Clients), Y: cell.PerSecond})
			}
		}
		if len(s.points) > 0 {
			c.series = append(c.series, s)
		}
	}
	if len(c.series) == 0 {
		return c, errors.New("it holds no calls on the loopback")
	}
	return c, nil
}
