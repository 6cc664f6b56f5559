package effects

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/external"
)

// entry is an operation as --json writes it. Its fields are stable: more may come, none goes.
// It has nothing of the input.
type entry struct {
	Scope       string         `json:"scope"`
	Tool        string         `json:"tool"`
	Key         string         `json:"key"`
	State       external.State `json:"state"`
	Fence       int64          `json:"fence"`
	ProviderKey string         `json:"provider_key"`
	// Since is when it was parked, of an operation that is not parked when it last changed.
	Since   time.Time `json:"since"`
	SentAt  time.Time `json:"sent_at,omitzero"`
	Ref     string    `json:"ref,omitempty"`
	Twice   string    `json:"twice,omitempty"`
	Note    string    `json:"note,omitempty"`
	Verdict string    `json:"verdict,omitempty"`
	// Cursor is what `dedup parked --after` goes on from.
	Cursor string `json:"cursor,omitempty"`

	now time.Time
}

func newEntry(op external.Operation) entry {
	e := entry{
		Scope: op.Scope, Tool: op.Tool, Key: op.Key, State: op.State, Fence: op.Fence, ProviderKey: op.ProviderKey,
		Since: op.ChangedAt.UTC(), Ref: op.Ref, Twice: op.Twice, Note: op.Note, Verdict: op.Verdict, now: op.Now,
	}
	if !op.SentAt.IsZero() {
		e.SentAt = op.SentAt.UTC()
	}
	return e
}

// position is where an operation stands in the list.
type position struct {
	Since            time.Time
	Scope, Tool, Key string
}

func (p position) operation() external.Operation {
	return external.Operation{Scope: p.Scope, Tool: p.Tool, Key: p.Key, ChangedAt: p.Since}
}

// withCursor is an entry of the list.
func (e entry) withCursor() (entry, error) {
	cursor, err := cli.Cursor(position{e.Since, e.Scope, e.Tool, e.Key})
	e.Cursor = cursor
	return e, err
}

func (e entry) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(e)
}

// writeText writes what names the operation as words of a shell, and below it what is known.
func (e entry) writeText(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintln(&text, e.name())
	for _, field := range []struct{ label, text string }{
		{"state", fmt.Sprintf("%s since %s (%s), fence %d", e.State, e.Since.Format(time.RFC3339), e.now.Sub(e.Since).Round(time.Second), e.Fence)},
		{"provider key", e.ProviderKey},
		{"ref", e.Ref},
		{"twice", e.Twice},
		{"note", e.Note},
		{"verdict", e.Verdict},
	} {
		if field.text != "" {
			fmt.Fprintf(&text, "  %-13s %s\n", field.label, printable(field.text))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// name is what `dedup resolve` is given.
func (e entry) name() string { return word(e.Scope) + " " + word(e.Tool) + " " + word(e.Key) }

var plain = regexp.MustCompile(`^[\w.:/@%+=,-]+$`)

// word is a text as a shell reads it.
func word(text string) string {
	text = printable(text)
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// printable keeps the text of others from steering a terminal.
func printable(text string) string {
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
