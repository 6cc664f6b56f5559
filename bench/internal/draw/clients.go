package draw

import (
	"errors"

	"github.com/tooldedup/dedup/bench/internal/chart"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// clientsChart draws calls a second on the loopback against clients. It is
// logarithmic both ways: replays are several times all the others, and doubling the
// clients is a step.
func clientsChart(r *report.Report) (chart.Lines, error) {
	c := chart.Lines{
		Title:    "Calls a second against clients",
		Subtitle: "loopback, effect: one row; " + machineText(r.Machine),
		XLabel:   "clients that call at the same time", YLabel: "calls a second",
		LogX: true, LogY: true,
	}
	for _, line := range []struct {
		way  string
		kind report.Kind
		name string
	}{
		{way.Base, report.First, title(r, way.Base)},
		{"do", report.First, title(r, "do")},
		{"statement", report.First, title(r, "statement")},
		{"textbook", report.First, title(r, "textbook")},
		{"look-first", report.Replay, "replay in one trip"},
	} {
		s := chart.Series{Name: line.name}
		for _, cell := range r.Cells {
			if cell.Way == line.way && cell.Kind == line.kind && cell.Delay == 0 && cell.PerSecond > 0 {
				s.Points = append(s.Points, chart.Point{X: float64(cell.Clients), Y: cell.PerSecond})
			}
		}
		if len(s.Points) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	if len(c.Series) == 0 {
		return c, errors.New("it holds no calls on the loopback")
	}
	return c, nil
}
