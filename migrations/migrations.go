// Package migrations has the library's tables as goose migrations, and a check of them.
//
// The migrations do not conflict with an application's own: they have their own numbers and their
// own version table. Apply them with the application's goose,
//
//	goose.NewProvider(goose.DialectPostgres, db, migrations.FS,
//		goose.WithTableName(migrations.VersionTable))
//
// with `dedup migrate up`, or as the plain SQL that [SQL] returns and `dedup migrate print` prints.
// The statements name no schema, so they make the tables in the first schema of the connection's
// search_path.
//
// An application calls [Check] when it starts.
package migrations

import (
	"embed"
	"fmt"
	"strings"

	"github.com/tooldedup/dedup/internal/examiner"
)

// VersionTable is the table in which goose records the applied migrations: tool_dedup_version.
const VersionTable = examiner.VersionTable

// FS has the migrations in its root, where goose reads them.
//
//go:embed *.sql
var FS embed.FS

// SQL returns the statements of all up migrations in order, for applying them without goose.
func SQL() (string, error) {
	entries, err := FS.ReadDir(".")
	if err != nil {
		return "", fmt.Errorf("listing migrations: %w", err)
	}
	var out strings.Builder
	for _, entry := range entries {
		text, err := FS.ReadFile(entry.Name())
		if err != nil {
			return "", fmt.Errorf("reading migration %s: %w", entry.Name(), err)
		}
		_, up, found := strings.Cut(string(text), "-- +goose Up\n")
		if !found {
			return "", fmt.Errorf("migration %s has no up part", entry.Name())
		}
		up, _, _ = strings.Cut(up, "-- +goose Down")
		fmt.Fprintf(&out, "-- %s\n\n%s\n\n", entry.Name(), strings.TrimSpace(up))
	}
	return strings.TrimRight(out.String(), "\n") + "\n", nil
}
