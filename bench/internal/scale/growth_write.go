package scale

import (
	"fmt"
	"io"

	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/table"
)

func (g *Growth) write(w io.Writer) {
	g.Machine.Write(w)
	fmt.Fprint(w, "\nFirst calls with a one-row effect. Ratios of p50 are those of the same rounds.\n\n")
	t := table.New("keys, clients", "records", "bare p50", "call p50", "call p99", "calls/s", "to bare", "to small table")
	for _, row := range g.Rows {
		t.Row(fmt.Sprintf("%s, %s", row.Keys, clientsOf(row.Clients)), figure.Thousands(int64(row.Records)),
			millis(row.Bare.P50), millis(row.Call.P50), millis(row.Call.P99), figure.Thousands(int64(row.Call.PerSecond)),
			times(row.ToBare), times(row.ToSmall))
	}
	t.Write(w)

	fmt.Fprint(w, "WAL bytes a call, effect included: right after a checkpoint, when pages are written whole, and after further calls.\n\n")
	t = table.New("keys", "records", "after checkpoint", "warm", "calls before")
	for _, write := range g.Writes {
		t.Row(string(write.Keys), figure.Thousands(int64(write.Records)), figure.Text(write.Fresh), figure.Text(write.Warm), figure.Thousands(int64(write.Before)))
	}
	t.Write(w)

	fmt.Fprint(w, "Bytes a record.\n\n")
	t = table.New("keys", "filled by", "records", "heap", "primary key", "due index", "total")
	for _, weight := range g.Weights {
		t.Row(string(weight.Keys), weight.Filled, figure.Thousands(weight.Records), figure.Text(weight.each(weight.Heap)),
			figure.Text(weight.each(weight.PrimaryKey)), figure.Text(weight.each(weight.DueIndex)), figure.Text(weight.each(weight.Total)))
	}
	t.Write(w)
	writeGoals(w, g.Goals)
}

// verdict has nothing to say: a call that fails ends the measurement.
func (g *Growth) verdict() error { return nil }
