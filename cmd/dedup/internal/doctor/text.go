package doctor

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	textWidth  = 100 // columns of a terminal
	labelWidth = 10  // of the column with the severities
	fieldWidth = 6   // of "read" and "fix"
)

// writeText writes the findings as a table: the severity on the left, and on the
// right what it is about, what was read and what to do.
func (r *report) writeText(out io.Writer) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "database %s as role %s, schema %s, PostgreSQL %s\n\n", r.Database, r.Role, r.Schema, r.Server)
	for _, f := range r.Findings {
		f.writeText(&text)
	}
	fmt.Fprintf(&text, "\n%s\n", r.summary())
	_, err := out.Write(text.Bytes())
	return err
}

func (f Finding) writeText(out *bytes.Buffer) {
	if f.Severity == SeverityOK {
		fmt.Fprintf(out, "%-*s%s: %s\n", labelWidth, f.Severity, f.ID, f.Evidence)
		return
	}
	fmt.Fprintf(out, "%-*s%s\n", labelWidth, strings.ToUpper(string(f.Severity)), f.ID)
	indent := strings.Repeat(" ", labelWidth)
	for _, line := range wrap(f.What, textWidth-labelWidth) {
		fmt.Fprintf(out, "%s%s\n", indent, line)
	}
	for _, field := range []struct{ label, text string }{{"read", f.Evidence}, {"fix", f.Fix}} {
		for i, line := range wrap(field.text, textWidth-labelWidth-fieldWidth) {
			label := ""
			if i == 0 {
				label = field.label
			}
			fmt.Fprintf(out, "%s%-*s%s\n", indent, fieldWidth, label, line)
		}
	}
	out.WriteByte('\n')
}

// wrap breaks a text into lines of at most width characters, between words. A
// word that is longer stays whole.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
