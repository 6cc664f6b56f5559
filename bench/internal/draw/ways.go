package draw

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tooldedup/dedup/bench/internal/chart"
	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// inOrder are the ways from top to bottom: the library's own, and what else people
// use by how it fares. The plain transaction is the line at 1; a batch would make
// all other bars too short to compare, and is said in words.
var inOrder = []string{"statement", "do", "look-first", "textbook", "river", "redis", "dbos", "dbos2"}

const batch = "batch"

// waysChart compares first calls of one client with the plain transaction.
func waysChart(r *report.Report) (chart.Bars, error) {
	c := chart.Bars{
		Title:     "Calls a second, beside the transaction without protection",
		Subtitle:  "first calls of 1 client, effect: one row; " + machineText(r.Machine),
		XLabel:    "times the plain transaction in the same rounds; more is better",
		Reference: &chart.Reference{Value: 1, Label: "plain transaction"},
		Note:      batchNote(r),
	}
	for _, line := range r.Lines {
		c.Series = append(c.Series, delayText(line.Delay))
	}
	for _, name := range inOrder {
		w, known := r.Way(name)
		if !known {
			continue
		}
		group, found := chart.Group{Label: w.Title}, false
		for _, line := range r.Lines {
			ratio := -1.0
			if cell, ok := r.Cell(name, report.First, line.Delay, 1); ok {
				ratio, found = cell.Ratio, true
			}
			group.Values = append(group.Values, ratio)
		}
		if found {
			c.Groups = append(c.Groups, group)
		}
	}
	if len(c.Groups) == 0 {
		return c, errors.New("it holds no first calls of 1 client")
	}
	return c, nil
}

// batchNote is empty where no batch was measured.
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
	return fmt.Sprintf("Off the scale: %s, %s to %s times the plain transaction for each call.", w.Title, figure.Text(least), figure.Text(most))
}

func delayText(delay time.Duration) string {
	if delay == 0 {
		return "loopback"
	}
	return fmt.Sprintf("%g ms each way", float64(delay)/float64(time.Millisecond))
}

// machineText is what a reader must know to compare.
func machineText(m report.Machine) string {
	version, _, _ := strings.Cut(m.Postgres, " ")
	return fmt.Sprintf("PostgreSQL %s on %d cores", version, m.Cores)
}

// title is how a way is called in the charts.
func title(r *report.Report, name string) string {
	if name == way.Base {
		return "plain transaction"
	}
	w, _ := r.Way(name)
	return w.Title
}
