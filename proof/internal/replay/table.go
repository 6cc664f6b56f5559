package replay

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// row is a line of a table, for one arm. The zero row is an empty line.
type row struct{ Label, Cell string }

func number(label string, value int) row { return row{label, thousands(value)} }

// work is the work of an arm.
func (r *result) work() []row {
	return []row{
		number("sessions", r.Sessions),
		number("calls, reads among them", r.Calls),
		number("writes", r.Writes),
		number("writes whose id another had before", r.ReusedIDs),
		{"repeated writes that ran", fmt.Sprintf("%d of %d", r.RepeatedWritesRan, r.RepeatedWrites)},
		number("deliveries of writes", r.Deliveries),
		{"rounds of one, two and eight", fmt.Sprintf("%d, %d, %d", r.Rounds.Single, r.Rounds.Twins2, r.Rounds.Twins8)},
		number("answered from a record", r.Replayed),
		number("worker processes", r.Processes),
		number("answers compared", r.Checked.Answers),
		{"seconds", strconv.FormatFloat(r.Seconds, 'f', 1, 64)},
	}
}

// rows are all figures of an arm.
func (r *result) rows() []row {
	rows := append(r.work(), row{}, number("faults applied", r.FaultsTotal))
	for _, kind := range faultKinds {
		rows = append(rows, number("  "+string(kind), r.Faults[kind]))
	}
	rows = append(rows, row{})
	for _, f := range r.outcome() {
		rows = append(rows, number(f.name, f.value))
	}
	return rows
}

// writeTable writes the figures of one arm, or of two side by side.
func writeTable(out io.Writer, r *result) error {
	arms := []*result{r}
	if r.Naive != nil {
		arms = []*result{r.Naive, r}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "recording  %s\npostgres   %s\nthrough    %s\nseed       %d\n\n", r.Recording, r.Postgres, r.Through, r.Seed)
	width := 0
	columns := make([][]row, len(arms))
	for i, arm := range arms {
		columns[i] = append([]row{{"", arm.Mode}}, arm.rows()...)
		for _, row := range columns[i] {
			width = max(width, len(row.Label))
		}
	}
	for at, first := range columns[0] {
		line := fmt.Sprintf("%-*s", width, first.Label)
		for _, column := range columns {
			line += fmt.Sprintf("  %12s", column[at].Cell)
		}
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// thousands writes 12345 as 12,345.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
