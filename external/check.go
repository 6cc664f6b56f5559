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
		switch p.Name {
		case "migrations_pending", "schema_missing", "table_missing":
			all = append(all, errors.New(p.What+": "+p.Fix))
		default:
			if strings.HasPrefix(p.Name, "effect_") {
				all = append(all, errors.New(p.What+": "+p.Fix))
			}
		}
	}
	if all != nil {
		return &dedup.Error{Answer: dedup.ErrSchema, Err: errors.Join(all...)}
	}
	var sequence *string
	if err := x.pool.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1::text)::text", x.sql.sequence).Scan(&sequence); err != nil {
		return failed("checking the table", err)
	}
	if sequence == nil {
		return &dedup.Error{Answer: dedup.ErrSchema, Err: errors.New(x.sql.sequence + " is missing: apply the migrations")}
	}
	return nil
}
