package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// LogText returns the text of err for logs, without text that may quote values: messages of
// servers, and pgx's descriptions of arguments that it cannot encode. SQLSTATE, routine and
// constraint replace a server's message. It is empty for nil.
func LogText(err error) string {
	if err == nil {
		return ""
	}
	text := withoutServerText(err.Error(), err)
	const unable = "unable to encode "
	if at := strings.Index(text, unable); at >= 0 {
		text = text[:at] + unable + "an argument"
	}
	return text
}

// withoutServerText replaces the messages of server errors in text. It searches err and the errors
// that err wraps.
func withoutServerText(text string, err error) string {
	switch wrapper := err.(type) {
	case interface{ Unwrap() []error }:
		for _, one := range wrapper.Unwrap() {
			text = withoutServerText(text, one)
		}
		return text
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			text = withoutServerText(text, inner)
		}
	}
	server, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || server.Message == "" {
		return text
	}
	short := "SQLSTATE " + server.Code
	if server.Routine != "" {
		short += " in " + server.Routine
	}
	if server.ConstraintName != "" {
		short += fmt.Sprintf(", constraint %q", server.ConstraintName)
	}
	text = strings.ReplaceAll(text, server.Error(), short)
	for _, part := range [...]string{server.Message, server.Detail, server.Hint, server.Where} {
		if part != "" {
			text = strings.ReplaceAll(text, part, short)
		}
	}
	return text
}
