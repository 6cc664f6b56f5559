package draw

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tooldedup/dedup/bench/internal/chart"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/scale"
)

// growthChart draws the p50 of the fewest clients.
func growthChart(g *scale.Growth) (chart.Lines, error) {
	if len(g.Rows) == 0 {
		return chart.Lines{}, errors.New("it holds no measurement")
	}
	clients := slices.MinFunc(g.Rows, func(a, b scale.GrowthRow) int { return a.Clients - b.Clients }).Clients
	c := chart.Lines{
		Title:    "A first call against the size of its table",
		Subtitle: fmt.Sprintf("p50 of dedup.Do, clients: %d, loopback; %s", clients, machineText(g.Machine)),
		XLabel:   "records in the table", YLabel: "milliseconds",
		LogX: true,
	}
	var bare []chart.Point // of both kinds of keys, which are the same to it
	for _, kind := range []scale.KeyKind{scale.OrderedKeys, scale.RandomKeys} {
		s := chart.Series{Name: fmt.Sprintf("%s keys", kind)}
		for _, row := range g.Rows {
			if row.Keys == kind && row.Clients == clients {
				s.Points = append(s.Points, at(row, row.Call))
				bare = append(bare, at(row, row.Bare))
			}
		}
		if len(s.Points) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	c.Series = append(c.Series, chart.Series{Name: "plain transaction", Points: middle(bare)})
	return c, nil
}

func at(row scale.GrowthRow, l measure.Latency) chart.Point {
	return chart.Point{X: float64(row.Records), Y: float64(l.P50) / float64(time.Millisecond)}
}

// middle is the median of the points of each X, in the order of X.
func middle(points []chart.Point) (all []chart.Point) {
	byX := map[float64][]float64{}
	for _, p := range points {
		byX[p.X] = append(byX[p.X], p.Y)
	}
	for x, ys := range byX {
		all = append(all, chart.Point{X: x, Y: measure.Median(ys)})
	}
	slices.SortFunc(all, func(a, b chart.Point) int { return int(a.X - b.X) })
	return all
}
