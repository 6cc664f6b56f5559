package measure

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// A Table is text in columns.
type Table struct{ columns *tabwriter.Writer }

// NewTable returns a table with its heading, which [Table.Flush] writes to w.
func NewTable(w io.Writer, heading ...any) Table {
	t := Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)}
	t.Row(heading...)
	return t
}

// Row adds a row. Numbers have their thousands separated; a duration is written in milliseconds.
func (t Table) Row(cells ...any) {
	var row strings.Builder
	for _, cell := range cells {
		row.WriteString(Text(cell))
		row.WriteByte('\t')
	}
	fmt.Fprintln(t.columns, row.String())
}

// Flush writes the table and an empty line.
func (t Table) Flush() {
	fmt.Fprintln(t.columns)
	_ = t.columns.Flush() // fails where w does, and the report has nowhere else to go
}

// Text writes a value as a [Table] does: 1,234, 0.16, 12.34 ms.
func Text(v any) string {
	english := message.NewPrinter(language.English)
	switch v := v.(type) {
	case time.Duration:
		return english.Sprintf("%.2f ms", float64(v)/float64(time.Millisecond))
	case float64:
		return english.Sprintf("%.2f", v)
	case int, int64:
		return english.Sprintf("%d", v)
	}
	return fmt.Sprint(v)
}
