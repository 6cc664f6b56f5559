package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// LogText returns the text of err for logs, without text that may quote values: messages of
// servers, and a driver's descriptions of values that it cannot encode or scan. SQLSTATE, routine
// and constraint replace a server's message. It is empty for nil.
func LogText(err error) string {
	if err == nil {
		return ""
	}
	text := withoutServerText(err.Error(), err)
	for _, quotes := range [...]struct{ from, short string }{
		{"unable to encode ", "unable to encode an argument"},
		{pgxScans, "cannot scan a column"},
		{sqlScans, "cannot scan a column"},
		{sqlConverts, "cannot convert a column"},
	} {
		if at := strings.Index(text, quotes.from); at >= 0 {
			text = text[:at] + quotes.short
		}
	}
	return text
}

// The beginnings of texts of pgx and database/sql that may quote the value of a column. The errors
// of database/sql have no type.
const (
	pgxScans    = "can't scan into dest["
	sqlScans    = "sql: Scan error on column "
	sqlConverts = "converting driver.Value type "
)

// IsOfDatabase reports whether the text of err has the text of an error of a database or its
// driver, which may quote arguments and rows, and name columns and types.
func IsOfDatabase(err error) bool {
	text := err.Error()
	for _, mark := range [...]string{
		"(SQLSTATE ", "(OID ", "failed to encode args[", pgxScans, // pgx
		"sql: converting argument ", sqlScans, sqlConverts, // database/sql
	} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	var server interface { // of pgx and other drivers
		error
		SQLState() string
	}
	if !errors.As(err, &server) {
		return false
	}
	said := server.Error() // text may have a part of it
	return strings.Contains(text, said[:min(len(said), 64)])
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
