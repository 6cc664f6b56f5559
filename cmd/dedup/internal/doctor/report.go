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

// Severity is how bad a finding is.
type Severity string

// The severities, worst first.
const (
	// SeverityError: a call can run twice, can lose its record, or is refused.
	SeverityError Severity = "error"
	// SeverityWarning: something else can be lost, or is slow.
	SeverityWarning Severity = "warning"
	// SeverityUnknown: the value could not be read.
	SeverityUnknown Severity = "unknown"
	// SeverityOK: the value was read and is sound.
	SeverityOK Severity = "ok"
)

// severities returns all severities, worst first.
func severities() []Severity {
	return []Severity{SeverityError, SeverityWarning, SeverityUnknown, SeverityOK}
}

// Finding is the result of one check.
type Finding struct {
	// ID is stable. For an error or a warning it names the judgement or, for the schema, the
	// problem. Otherwise it names the check.
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	// What describes the fault and its consequence.
	What string `json:"what,omitempty"`
	// Evidence has the values that the check read.
	Evidence string `json:"evidence,omitempty"`
	// Fix tells the operator what to do. If SQL is enough, it is "run: " and the statements.
	Fix string `json:"fix,omitempty"`

	// when is the column that this finding judges. Default: ID.
	when string
}

// report is the output of `dedup doctor --json`. Its fields are stable: later versions only add
// fields.
type report struct {
	subject

	// Sound is true if Errors is 0.
	Sound    bool `json:"sound"`
	Errors   int  `json:"errors"`
	Warnings int  `json:"warnings"`
	Unknown  int  `json:"unknown"`
	// Findings are sorted, worst first.
	Findings []Finding `json:"findings"`
}

// subject is the database that was examined.
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

// writeText writes one line for each sound check, and the fault, the evidence and the fix of every
// other finding.
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

// summary counts the findings, in words.
func (r *report) summary() string {
	var parts []string
	for _, of := range []struct {
		n         int
		one, many string
	}{{r.Errors, "error", "errors"}, {r.Warnings, "warning", "warnings"}, {r.Unknown, "unknown value", "unknown values"}} {
		switch {
		case of.n == 1:
			parts = append(parts, "1 "+of.one)
		case of.n > 1:
			parts = append(parts, fmt.Sprint(of.n, " ", of.many))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "sound")
}

// verdict returns the error of the command, nil if all is well.
func (r *report) verdict(strict bool) error {
	if r.Sound && (!strict || r.Warnings+r.Unknown == 0) {
		return nil
	}
	return errors.New("doctor: " + r.summary())
}
