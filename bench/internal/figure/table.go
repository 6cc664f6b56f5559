package figure

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// A Table is aligned text: the first column to the left, the others to the right,
// a rule below the first row.
type Table [][]string

// NewTable returns a table with its first row.
func NewTable(heading ...string) *Table { return &Table{heading} }

// Row adds a row, which may be shorter than the first. A number is written as [Text]
// and [Thousands] do, a duration in milliseconds.
func (t *Table) Row(cells ...any) {
	row := make([]string, len((*t)[0]))
	for i, cell := range cells {
		switch v := cell.(type) {
		case int:
			row[i] = Thousands(v)
		case int64:
			row[i] = Thousands(v)
		case float64:
			row[i] = Text(v)
		case time.Duration:
			row[i] = Millis(v) + " ms"
		default:
			row[i] = fmt.Sprint(v)
		}
	}
	*t = append(*t, row)
}

// Write writes the table and an empty line.
func (t *Table) Write(w io.Writer) {
	wide, rule := 0, []string{""}
	for _, heading := range (*t)[0][1:] {
		rule = append(rule, strings.Repeat("-", utf8.RuneCountInString(heading)))
	}
	for _, row := range *t {
		wide = max(wide, utf8.RuneCountInString(row[0]))
	}
	rule[0] = strings.Repeat("-", wide)
	var text strings.Builder
	tabs := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range slices.Insert(slices.Clone(*t), 1, rule) {
		// All columns are aligned to the right, so the first one is padded to one length.
		fmt.Fprintf(tabs, "%-*s\t%s\t\n", wide, row[0], strings.Join(row[1:], "\t"))
	}
	_ = tabs.Flush() // which cannot fail
	for line := range strings.Lines(text.String() + "\n") {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}
