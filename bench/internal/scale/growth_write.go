package scale

import (
	"fmt"
	"io"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

// goals looks at the largest table.
func (g *Growth) goals(o GrowthOptions) (goals []Goal) {
	smallest, largest := o.Sizes[0], o.Sizes[len(o.Sizes)-1]
	for _, row := range g.Rows {
		if row.Records == largest {
			goals = append(goals, atMost(fmt.Sprintf("p50 at %s records to that at %s, %s keys, clients: %d",
				figure.Thousands(largest), figure.Thousands(smallest), row.Keys, row.Clients), 1.25, row.ToSmall))
		}
	}
	for _, write := range g.Writes {
		if write.Records == largest && write.Keys == OrderedKeys {
			goals = append(goals, atMost("WAL bytes a call, ordered keys, warm", 700, write.Warm))
		}
	}
	for _, w := range g.Weights {
		what := fmt.Sprintf("bytes a record, indexes included, %s keys, filled by %s", w.Keys, w.Filled)
		goals = append(goals, atMost(what, 350, ratio(w.Total, w.Records)))
	}
	return goals
}

func (g *Growth) write(w io.Writer) error {
	g.Machine.Write(w)
	fmt.Fprint(w, "\nFirst calls with a one-row effect. Ratios of p50 are those of the same rounds.\n\n")
	t := figure.NewTable("keys", "clients", "records", "bare p50", "call p50", "call p99", "calls/s", "to bare", "to small table")
	for _, row := range g.Rows {
		t.Row(row.Keys, row.Clients, row.Records, row.Bare.P50, row.Call.P50, row.Call.P99, int(row.Call.PerSecond),
			times(row.ToBare), times(row.ToSmall))
	}
	t.Write(w)

	fmt.Fprint(w, "WAL bytes a call, effect included: right after a checkpoint, when pages are written whole, and after further calls.\n\n")
	t = figure.NewTable("keys", "records", "after checkpoint", "warm", "calls before")
	for _, write := range g.Writes {
		t.Row(write.Keys, write.Records, write.Fresh, write.Warm, write.Before)
	}
	t.Write(w)

	fmt.Fprint(w, "Bytes a record.\n\n")
	t = figure.NewTable("keys", "filled by", "records", "heap", "primary key", "due index", "total")
	for _, each := range g.Weights {
		t.Row(each.Keys, each.Filled, each.Records, ratio(each.Heap, each.Records), ratio(each.PrimaryKey, each.Records),
			ratio(each.DueIndex, each.Records), ratio(each.Total, each.Records))
	}
	t.Write(w)
	return writeGoals(w, g.Goals)
}
