package scale

import (
	"fmt"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

// goals looks at the largest table.
func (g *Growth) goals(o GrowthOptions) (goals []Goal) {
	largest := o.Sizes[len(o.Sizes)-1]
	for _, row := range g.Rows {
		if row.Records == largest {
			what := fmt.Sprintf("p50 at %s records to that at %s, %s keys, %s", figure.Thousands(int64(largest)), figure.Thousands(int64(o.Sizes[0])), row.Keys, clientsOf(row.Clients))
			goals = append(goals, atMost(what, 1.25, row.ToSmall))
		}
	}
	for _, write := range g.Writes {
		if write.Records == largest && write.Keys == OrderedKeys {
			goals = append(goals, atMost("WAL bytes a call, ordered keys, warm", 700, write.Warm))
		}
	}
	for _, w := range g.Weights {
		what := fmt.Sprintf("bytes a record, indexes included, %s keys, filled by %s", w.Keys, w.Filled)
		goals = append(goals, atMost(what, 350, w.each(w.Total)))
	}
	return goals
}

func clientsOf(n int) string {
	if n == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", n)
}
