package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/exit"
)

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
	ctx, cancel := context.WithTimeout(ctx, s.timeout+answerWait)
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
	r := &report{subject: who, Findings: findings}
	for _, f := range findings {
		switch f.Severity {
		case SeverityError:
			r.Errors++
		case SeverityWarning:
			r.Warnings++
		case SeverityUnknown:
			r.Unknown++
		}
	}
	r.Sound = r.Errors == 0
	return r
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
	count := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprint(n, " ", many))
		}
	}
	count(r.Errors, "error", "errors")
	count(r.Warnings, "warning", "warnings")
	count(r.Unknown, "thing not readable", "things not readable")
	if parts == nil {
		return "sound"
	}
	return strings.Join(parts, ", ")
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
