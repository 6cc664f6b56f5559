package scale

import (
	"fmt"
	"io"
	"time"

	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/table"
)

// fewCalls have no p99 but their slowest.
const fewCalls = 100

func (r *Sweep) write(w io.Writer) {
	r.Machine.Write(w)
	fmt.Fprint(w, "\nRecords a second, and what calls notice of it.\n\n")
	t := table.New("records that become", "records", "alone/s", "under load/s", "calls during", "p50 quiet", "p50 during",
		"p99 before", "p99 after", "p99 quiet", "p99 during", "p99 ratio")
	for _, row := range r.Rows {
		t.Row(string(row.Due), figure.Thousands(row.Records), figure.Thousands(int64(row.Alone)), figure.Thousands(int64(row.Loaded)),
			figure.Thousands(int64(row.Swept.Calls)), millis(row.Quiet.P50), millis(row.Swept.P50),
			millis(row.Before.P99), millis(row.After.P99), millis(row.Quiet.P99), millis(row.Swept.P99), times(ratio(row.Swept.P99, row.Quiet.P99)))
	}
	t.Write(w)
	for _, row := range r.Rows {
		if row.Swept.Calls < fewCalls {
			fmt.Fprintf(w, "%d calls fell into the sweep of records that become %s: too few for a p99. Sweep more records.\n\n", row.Swept.Calls, row.Due)
		}
	}

	writeCases(w, r.Cases)
	if len(r.Generations) > 0 {
		fmt.Fprintf(w, "Table and indexes as generations of records come and go, beside %s records that stay.\n", figure.Thousands(r.Generations[0].After.Records))
		switch r.Vacuum {
		case VacuumAuto:
			fmt.Fprintf(w, "Each waits for autovacuum, which looks every %s here; its default is every minute.\n\n", r.Naptime)
		default:
			fmt.Fprintf(w, "Vacuum after each: %s.\n\n", r.Vacuum)
		}
		t = table.New("generation", "full", "swept", "vacuumed", "heap", "primary key", "due index", "to the first", "took")
		for i, g := range r.Generations {
			t.Row(fmt.Sprint(i+1), megabytes(g.Full.Total), megabytes(g.Swept.Total), megabytes(g.After.Total),
				megabytes(g.After.Heap), megabytes(g.After.PrimaryKey), megabytes(g.After.DueIndex),
				times(ratio(g.After.Total, r.Generations[0].After.Total)), g.Took.Round(time.Second/10).String())
		}
		t.Write(w)
	}
	writeGoals(w, r.Goals)
}

func writeCases(w io.Writer, rows []SweepCaseRow) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprint(w, "What other tenants' calls notice of a sweep that meets something: first calls, and calls that use a forgotten identity anew.\n\n")
	t := table.New("the sweep meets", "forgotten", "first calls", "p99 quiet", "p99 during", "p99 ratio",
		"calls anew", "p99 quiet", "p99 during", "p99 ratio", "in flight without a twin")
	for _, row := range rows {
		t.Row(string(row.Case), figure.Thousands(row.Forgotten),
			figure.Thousands(int64(row.Firsts.During.Calls)), millis(row.Firsts.Quiet.P99), millis(row.Firsts.During.P99), times(row.Firsts.P99Ratio()),
			figure.Thousands(int64(row.Anews.During.Calls)), millis(row.Anews.Quiet.P99), millis(row.Anews.During.P99), times(row.Anews.P99Ratio()),
			figure.Thousands(row.InFlight))
	}
	t.Write(w)
	for _, row := range rows {
		if row.Held.Calls > 0 {
			fmt.Fprintf(w, "%s: %d calls used an identity of a batch anew while its hook hung for %s; p50 %s, p99 %s.\n\n",
				row.Case, row.Held.Calls, hookHangs, millis(row.Held.P50), millis(row.Held.P99))
		}
	}
}
