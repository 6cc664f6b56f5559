package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
)

// Severity says how bad a finding is.
type Severity string

// The severities, worst first.
const (
	// SeverityError: a call can run twice, can lose its record, or is refused.
	SeverityError Severity = "error"
	// SeverityWarning: something else can be lost, or is slow.
	SeverityWarning Severity = "warning"
	// SeverityUnknown: it could not be read, so that nothing is known about it.
	SeverityUnknown Severity = "unknown"
	// SeverityOK: it was read, and is sound.
	SeverityOK Severity = "ok"
)

// severities are all of them, worst first.
func severities() []Severity {
	return []Severity{SeverityError, SeverityWarning, SeverityUnknown, SeverityOK}
}

// Finding is one thing that was looked at, and what it was like.
type Finding struct {
	// ID is stable. For an error and a warning it is that of a judgement or, for the schema, the
	// name of a problem. For what is sound or not readable it names what was looked at.
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	// What describes the fault and its consequence.
	What string `json:"what,omitempty"`
	// Evidence is what was read.
	Evidence string `json:"evidence,omitempty"`
	// Fix says what to do. Where SQL is all there is to it, it is "run: " and
	// statements.
	Fix string `json:"fix,omitempty"`

	// when is the column of which it is a judgement; by default the ID.
	when string
}

// report is what `dedup doctor --json` writes. Its fields are stable: more may
// come, none goes.
type report struct {
	subject

	// Sound says that there is no error.
	Sound    bool `json:"sound"`
	Errors   int  `json:"errors"`
	Warnings int  `json:"warnings"`
	Unknown  int  `json:"unknown"`
	// Findings are sorted, worst first.
	Findings []Finding `json:"findings"`
}

// subject is what was looked at.
type subject struct {
	Server   string `json:"server_version"`
	Database string `json:"database"`
	Role     string `json:"role"`
	Schema   string `json:"schema"`
}

func newReport(who subject, findings []Finding) *report {
	count := map[Severity]int{}
	for _, f := range findings {
		count[f.Severity]++
	}
	return &report{
		subject: who, Sound: count[SeverityError] == 0, Errors: count[SeverityError],
		Warnings: count[SeverityWarning], Unknown: count[SeverityUnknown], Findings: findings,
	}
}

func (r *report) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// writeText writes what is sound in a line each, and of the rest what it is, what was read and what
// to do.
func (r *report) writeText(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "database %s as role %s, schema %s, PostgreSQL %s\n\n", r.Database, r.Role, r.Schema, r.Server)
	for _, f := range r.Findings {
		if f.Severity == SeverityOK {
			fmt.Fprintf(&text, "ok        %s: %s\n", f.ID, f.Evidence)
			continue
		}
		title := fmt.Sprintf("%-9s %s", strings.ToUpper(string(f.Severity)), f.ID)
		_ = cli.WriteText(&text, []string{title, "what", f.What, "read", f.Evidence, "fix", f.Fix}) // a Builder takes it
	}
	fmt.Fprintf(&text, "\n%s\n", r.summary())
	_, err := io.WriteString(out, text.String())
	return err
}

// summary counts what was found, in words.
func (r *report) summary() string {
	var parts []string
	for _, of := range []struct {
		n         int
		one, many string
	}{{r.Errors, "error", "errors"}, {r.Warnings, "warning", "warnings"}, {r.Unknown, "thing not readable", "things not readable"}} {
		switch {
		case of.n == 1:
			parts = append(parts, "1 "+of.one)
		case of.n > 1:
			parts = append(parts, fmt.Sprint(of.n, " ", of.many))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "sound")
}

// verdict is the error that the command ends with, nil if all is well.
func (r *report) verdict(strict bool) error {
	if r.Sound && (!strict || r.Warnings+r.Unknown == 0) {
		return nil
	}
	return errors.New("doctor: " + r.summary())
}
