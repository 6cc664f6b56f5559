package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/inspect"
)

// Write writes an entry to stdout: as a line of JSON with --json, else like [WriteText].
func (q *Query) Write(cmd *cobra.Command, entry any, text []string) error {
	if !q.JSON {
		return WriteText(cmd.OutOrStdout(), text)
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetEscapeHTML(false)
	return written(encoder.Encode(entry))
}

// WriteText writes a title and below it fields. A field is a label and a text; without a text it is
// left out.
func WriteText(out io.Writer, text []string) error {
	var all strings.Builder
	fmt.Fprintln(&all, text[0])
	for field := range slices.Chunk(text[1:], 2) {
		if field[1] != "" {
			fmt.Fprintf(&all, "  %-13s %s\n", field[0], inspect.Printable(field[1]))
		}
	}
	_, err := io.WriteString(out, all.String())
	return written(err)
}

func written(err error) error {
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// WritePage writes a page of a list. If there is a next page, it writes its command to stderr:
// command with --after. nothing is the message for an empty list. text returns the text of an entry
// for [Query.Write].
func WritePage[T any](cmd *cobra.Command, q *Query, page inspect.Page[T], command, nothing string, text func(*T) []string) error {
	for i := range page.Entries {
		if err := q.Write(cmd, &page.Entries[i], text(&page.Entries[i])); err != nil {
			return err
		}
	}
	switch {
	case page.Next != "":
		cmd.PrintErrf("Next page: %s --after %s\n", command, page.Next)
	case len(page.Entries) == 0 && q.After == "":
		cmd.PrintErrln(nothing)
	case len(page.Entries) == 0:
		cmd.PrintErrln("There are no more entries.")
	}
	return nil
}

// CommandLine returns a command line for a shell, with the flags that have a value. Flags are pairs
// of a name and a value.
func CommandLine(command string, flags ...string) string {
	for flag := range slices.Chunk(flags, 2) {
		if flag[1] != "" {
			command += " --" + flag[0] + " " + inspect.Word(flag[1])
		}
	}
	return command
}
