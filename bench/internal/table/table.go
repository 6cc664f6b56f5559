// Package table writes aligned tables for the terminal.
package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A Table is aligned text: the first column to the left, the others to the right,
// a rule below the first row.
type Table struct {
	rows [][]string
	wide []int
}

// New returns a table with its first row.
func New(heading ...string) *Table {
	t := &Table{}
	t.Row(heading...)
	return t
}

// Row adds a row. It may be shorter than others.
func (t *Table) Row(cells ...string) {
	for i, cell := range cells {
		if i == len(t.wide) {
			t.wide = append(t.wide, 0)
		}
		t.wide[i] = max(t.wide[i], utf8.RuneCountInString(cell))
	}
	t.rows = append(t.rows, cells)
}

// Write writes the table and an empty line.
func (t *Table) Write(w io.Writer) {
	for i, row := range t.rows {
		t.line(w, row)
		if i == 0 {
			rule := make([]string, len(t.wide))
			for column, wide := range t.wide {
				rule[column] = strings.Repeat("-", wide)
			}
			t.line(w, rule)
		}
	}
	fmt.Fprintln(w)
}

func (t *Table) line(w io.Writer, row []string) {
	var b strings.Builder
	for i, cell := range row {
		pad := strings.Repeat(" ", t.wide[i]-utf8.RuneCountInString(cell))
		if i == 0 {
			b.WriteString("  " + cell + pad)
		} else {
			b.WriteString("  " + pad + cell)
		}
	}
	fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
}
