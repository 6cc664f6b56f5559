package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tooldedup/dedup/proof/internal/replay/payment"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

// row is a line of the table: a label, or a label and one cell an arm.
type row struct {
	label string
	cell  func(*Result) string
}

// Table writes the figures of an arm, or of both beside each other.
func Table(out io.Writer, r *Result) error {
	arms := []*Result{r}
	if r.Naive != nil {
		arms = []*Result{r.Naive, r}
	}
	rows := tableRows()
	if r.External != nil {
		rows = append(rows, externalRows(r.External)...)
	}
	if r.Metrics != nil {
		rows = append(rows, metricsRows(r.Metrics)...)
	}
	width := 0
	for _, row := range rows {
		width = max(width, len(row.label))
	}

	var text strings.Builder
	fmt.Fprintf(&text, "recording  %s\npostgres   %s\nthrough    %s\nseed       %d\n\n%-*s", r.Recording, r.Postgres, r.Through, r.Seed, width, "")
	for _, arm := range arms {
		fmt.Fprintf(&text, "  %10s", arm.Mode)
	}
	text.WriteByte('\n')
	for _, row := range rows {
		if row.cell == nil {
			text.WriteByte('\n')
			continue
		}
		fmt.Fprintf(&text, "%-*s", width, row.label)
		for _, arm := range arms {
			fmt.Fprintf(&text, "  %10s", row.cell(arm))
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func tableRows() []row {
	count := func(value func(*Result) int) func(*Result) string {
		return func(r *Result) string { return thousands(value(r)) }
	}
	rows := []row{
		{"sessions", count(func(r *Result) int { return r.Sessions })},
		{"writes", count(func(r *Result) int { return r.Writes })},
		{"deliveries of writes", count(func(r *Result) int { return r.Deliveries })},
		{"answered from a record", count(func(r *Result) int { return r.Replayed })},
		{"repeated writes that ran", func(r *Result) string {
			return fmt.Sprintf("%d of %d", r.RepeatedWritesRan, r.RepeatedWrites)
		}},
		{},
		{"faults applied", count(func(r *Result) int { return r.FaultsTotal })},
	}
	for _, kind := range plan.Faults() {
		rows = append(rows, row{"  " + string(kind), count(func(r *Result) int { return r.Faults[kind] })})
	}
	rows = append(rows, row{})
	for i, figure := range (&Result{}).figures() {
		rows = append(rows, row{figure.name, count(func(r *Result) int { return r.figures()[i].value })})
	}
	return append(rows, row{}, row{"seconds", func(r *Result) string {
		return strconv.FormatFloat(r.Seconds, 'f', 1, 64)
	}})
}

// externalRows are those of what was paid outside of the database. There is one arm then.
func externalRows(e *External) []row {
	count := func(n int) func(*Result) string {
		return func(*Result) string { return thousands(n) }
	}
	rows := []row{
		{},
		{"paid by a provider with " + string(e.Kind), count(e.Calls)},
		{"  refused before", count(e.Refused)},
		{"  requests", count(e.Requests)},
	}
	for _, m := range payment.Mishaps() {
		rows = append(rows, row{"    " + string(m), count(e.Mishaps[m])})
	}
	rows = append(rows, row{"  parked", count(e.Parked)}, row{"  parked, and it had happened", count(e.Happened)}, row{})
	for _, figure := range e.figures() {
		rows = append(rows, row{figure.name, count(figure.value)})
	}
	return rows
}

// metricsRows are those of what the workers export.
func metricsRows(m *Metrics) []row {
	of := func(exported, seen int) func(*Result) string {
		return func(*Result) string { return thousands(exported) + " of " + thousands(seen) }
	}
	return []row{
		{},
		{"calls, exported", of(m.Exported.Calls, m.Seen.Calls)},
		{"  replayed", of(m.Exported.Replayed, m.Seen.Replayed)},
		{"  recovered", of(m.Exported.Recovered, m.Seen.Recovered)},
		{"  unknown", of(m.Exported.Unknown, m.Seen.Unknown)},
		{"waits, exported", of(m.Exported.Waits, m.Seen.Waits)},
		{"duplicate rate", func(*Result) string {
			return fmt.Sprintf("%.2f %% of %.2f %%", 100*m.Exported.DuplicateRate(), 100*m.Seen.DuplicateRate())
		}},
		{"tools whose metrics do not agree", func(*Result) string { return thousands(m.Disagree) }},
	}
}

// thousands writes 12345 as 12,345.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
