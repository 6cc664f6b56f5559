package records

import (
	"fmt"

	"github.com/tooldedup/dedup/internal/inspect"
)

func role(s *inspect.Session) string {
	if s.Waits {
		return "waits"
	}
	return "in flight"
}

func sessionText(s *inspect.Session) string {
	text := fmt.Sprintf("pid %d", s.PID)
	if !s.Since.IsZero() {
		text += ", transaction since " + moment(s.Since, s.Now)
	}
	if s.Sweeps {
		text += ", a sweep"
	}
	for _, more := range []string{s.State, s.Application, s.Client, s.Statement} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}
