package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
)

// WriteJSON writes a value as one line.
func WriteJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// Field is a line of what is written about something.
type Field struct{ Label, Text string }

// WriteText writes a title and below it the fields that have a text.
func WriteText(out io.Writer, title string, fields ...Field) error {
	var text strings.Builder
	fmt.Fprintln(&text, title)
	for _, field := range fields {
		if field.Text != "" {
			fmt.Fprintf(&text, "  %-13s %s\n", field.Label, Printable(field.Text))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// Name is what commands are given to name a call.
func Name(scope, tool, key string) string {
	return Word(scope) + " " + Word(tool) + " " + Word(key)
}

var plain = regexp.MustCompile(`^[\w.:/@%+=,-]+$`)

// Word is a text as a shell reads it.
func Word(text string) string {
	text = Printable(text)
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Printable keeps the text of others from steering a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return unicode.ReplacementChar
	}, text)
}

// Entry is something that a command lists.
type Entry interface{ WriteText(out io.Writer) error }

// Write writes an entry as the command line asks for it.
func (q *Query) Write(out io.Writer, e Entry) error {
	var err error
	if q.JSON {
		err = WriteJSON(out, e)
	} else {
		err = e.WriteText(out)
	}
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
