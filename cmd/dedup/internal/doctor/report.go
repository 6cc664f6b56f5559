package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
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
	// What says what is wrong and what it leads to.
	What string `json:"what,omitempty"`
	// Evidence is what was read.
	Evidence string `json:"evidence,omitempty"`
	// Fix says what to do. Where SQL is all there is to it, it is "run: " and
	// statements.
	Fix string `json:"fix,omitempty"`
}

// sound is a finding of something that is as it should be.
func sound(id, evidence string) Finding {
	return Finding{ID: id, Severity: SeverityOK, Evidence: evidence}
}

const (
	notReadable = "not readable, so nothing is known about it"
	// tryAgain is the fix of what could not be read for reasons of its own.
	tryAgain = "remove what is in the way and run `dedup doctor` again"
)

// unreadable is a finding of something that nothing is known about.
func unreadable(id, evidence, fix string) Finding {
	return Finding{ID: id, Severity: SeverityUnknown, What: notReadable, Evidence: evidence, Fix: fix}
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

// introduce asks the server who is there: a pooler may have put another role or
// database in place of the URL's.
func introduce(ctx context.Context, s *session) (subject, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout+inspect.AnswerWait)
	defer cancel()
	who := subject{Schema: s.Schema}
	conn, err := s.connected(ctx)
	if err != nil {
		return who, err
	}
	err = conn.QueryRow(ctx, "SELECT current_setting('server_version'), current_database(), current_user", pgx.QueryExecModeExec).
		Scan(&who.Server, &who.Database, &who.Role)
	return who, err
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
	return &unsoundError{summary: r.summary()}
}

// unsoundError says that something was found that makes the promise false.
type unsoundError struct{ summary string }

// Error implements error.
func (e *unsoundError) Error() string { return "doctor: " + e.summary }

// ExitCode returns the code of a problem that was found.
func (e *unsoundError) ExitCode() int { return exit.Failed }

// Columns of a terminal: of all, of the severities, and of "read" and "fix".
const (
	textWidth  = 100
	labelWidth = 10
	fieldWidth = 6
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
			if i > 0 {
				field.label = ""
			}
			fmt.Fprintf(out, "%s%-*s%s\n", indent, fieldWidth, field.label, line)
		}
	}
	out.WriteByte('\n')
}

// wrap breaks a text into lines of at most width characters, between words. A
// word that is longer stays whole.
func wrap(text string, width int) (lines []string) {
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
