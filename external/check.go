package external

import (
	"context"
	"errors"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/examiner"
)

// Check reports whether the tool_effect table is there and can decide races. Call it at
// start-up, beside migrations.Check, which says the same of all tables. The error is a
// [dedup.ErrSchema] or the database's.
func (x *Tools) Check(ctx context.Context) error {
	problems, err := examiner.FindProblems(ctx, x.pool, x.d.Options().Schema)
	if err != nil {
		return failed("checking the table", err)
	}
	var all []error
	for _, p := range problems {
		if strings.HasPrefix(p.Name, "effect_") || p.Name == "migrations_pending" || p.Name == "schema_missing" {
			all = append(all, errors.New(p.What+": "+p.Fix))
		}
	}
	var sequence *string
	if err := x.pool.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1::text)::text", x.sql.sequence).Scan(&sequence); err != nil {
		return failed("checking the table", err)
	}
	if sequence == nil {
		all = append(all, errors.New(x.sql.sequence+" is missing: apply the migrations"))
	}
	if all != nil {
		return &dedup.Error{Answer: dedup.ErrSchema, Err: errors.Join(all...)}
	}
	return nil
}
