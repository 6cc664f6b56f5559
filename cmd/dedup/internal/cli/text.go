package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// WriteJSON writes a value as one line.
func WriteJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// WriteText writes a title and below it fields, of which each is a label and a text. Those without
// a text are left out.
func WriteText(out io.Writer, title string, fields ...string) error {
	var text strings.Builder
	fmt.Fprintln(&text, title)
	for field := range slices.Chunk(fields, 2) {
		if field[1] != "" {
			fmt.Fprintf(&text, "  %-13s %s\n", field[0], Printable(field[1]))
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
