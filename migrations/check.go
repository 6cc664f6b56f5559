package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
)

// Querier is what [Check] needs of a database: a *pgxpool.Pool, a *pgx.Conn or
// a pgx.Tx.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CheckOptions configure [Check]. A nil *CheckOptions and every zero field
// mean the documented default.
type CheckOptions struct {
	// Schema holds the tool_dedup table. Default "public", as in
	// dedup.Options.
	Schema string
}

// Check finds out whether a database carries the schema of tool_dedup, sound and usable by the
// current role. Run it when an application starts. Unless it is a Warning, a problem can mean that
// a call is refused later or runs twice.
//
// It returns nil, a [*SchemaError] with everything that is wrong, or another
// error if the catalogues cannot be read. Cancelling ctx ends it.
//
// It reads the server's catalogues and changes nothing, in two round trips. Which tool applied
// the schema makes no difference. A schema that is newer than this package is
// no problem by itself, so that a schema can be migrated before the
// applications that use it.
//
// The role needs the privileges of the GRANTs in docs/operations.md, on every table: which of them
// a program uses is not known here.
//
// A Deduper's first call looks for the worst of these problems by the same query, and
// names them in the same words.
//
// Storage parameters are not looked at: they are tuning, and an operator's own.
func Check(ctx context.Context, db Querier, opts *CheckOptions) error {
	schema := "public"
	if opts != nil && opts.Schema != "" {
		schema = opts.Schema
	}
	found, err := examiner.FindProblems(ctx, db, schema)
	if err != nil {
		return fmt.Errorf("migrations: reading the catalogues: %w", err)
	}
	if found == nil {
		return nil
	}
	unsound := &SchemaError{}
	for _, p := range found {
		unsound.Problems = append(unsound.Problems, Problem(p))
	}
	return unsound
}
