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

// Write writes an entry to stdout as the command line asks for it: as a line of JSON, or as
// [WriteText] does.
func (q *Query) Write(cmd *cobra.Command, entry any, text []string) error {
	if !q.JSON {
		return WriteText(cmd.OutOrStdout(), text)
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetEscapeHTML(false)
	return written(encoder.Encode(entry))
}

// WriteText writes a title and below it fields, of which each is a label and a text. Those without
// a text are left out.
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
