// Package migrations holds the schema of tool_dedup as goose migrations, and
// a check that a database carries it.
//
// The migrations live beside an application's own: they are numbered on their
// own and record themselves in their own version table, so that neither side's
// numbers can disturb the other's. Apply them with the application's goose,
//
//	goose.NewProvider(goose.DialectPostgres, db, migrations.FS,
//		goose.WithTableName(migrations.VersionTable))
//
// with `dedup migrate up`, or as the plain SQL that [SQL] returns and
// `dedup migrate print` prints. All objects are created unqualified, in the
// first schema of the connection's search_path.
//
// An application calls [Check] when it starts.
package migrations

import (
	"embed"
	"fmt"
	"strings"

	"github.com/tooldedup/dedup/internal/examiner"
)

// VersionTable is the name of the table in which goose records which of these
// migrations have been applied: tool_dedup_version.
const VersionTable = examiner.VersionTable

// FS holds the migrations as goose reads them, at its root.
//
//go:embed *.sql
var FS embed.FS

// SQL returns the statements of all up migrations in order, as plain SQL for
// those who apply schema changes by other means than goose.
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
