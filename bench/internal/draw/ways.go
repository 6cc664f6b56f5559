package draw

import (
	"errors"
	"fmt"
	"math"

	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/report"
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
