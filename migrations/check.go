package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
)

// Querier is what [Check] needs of a database: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CheckOptions configure [Check]. A nil *CheckOptions and every zero field mean the documented
// default.
type CheckOptions struct {
	// Schema holds the tool_dedup table. Default: "public", as in dedup.Options.
	Schema string
}

// Check reports whether a database has the tables of the migrations, and whether the current role
// can use them. Run it when an application starts. With a problem that is not a Warning, a call may
// fail or run twice.
//
// Check returns nil, a [*SchemaError] with every problem, or another error if it cannot read the
// catalogues. Cancelling ctx ends it.
//
// Check takes two round trips. It reads the server's catalogues and changes nothing. It does not
// matter which tool applied the migrations. A schema newer than this package is not a problem, so
// that you can migrate the schema before the applications.
//
// The role needs the privileges of the GRANTs in docs/operations.md on every table, because Check
// does not know which of them a program uses.
//
// A Deduper's first call looks for the worst of these problems with the same query, and reports
// them in the same words.
//
// Check ignores storage parameters, which operators may tune.
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
