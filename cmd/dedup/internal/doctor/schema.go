package doctor

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/inspect"
)

// lookAtSchema has one finding for each problem of the examiner's list.
func lookAtSchema(ctx context.Context, s *session) (found []Finding, err error) {
	var problems []examiner.Problem
	err = inspect.ReadOnly(ctx, s.pool, s.timeout, func(tx pgx.Tx) (err error) {
		problems, err = examiner.FindProblems(ctx, tx, s.Schema)
		return err
	})
	if err == nil && problems == nil {
		return []Finding{sound("schema", s.Table()+" is there, and as the migrations make it")}, nil
	}
	for _, p := range problems {
		f := Finding{ID: p.Name, Severity: SeverityError, What: p.What, Fix: p.Fix}
		if p.Warning {
			f.Severity = SeverityWarning
		}
		if p.Name == "row_security" {
			if f.Evidence, err = policies(ctx, s); err != nil {
				return nil, err
			}
		}
		found = append(found, f)
	}
	return found, err
}

// policies lists the table's policies: whether they hide anything from the role
// is for somebody to judge who knows what they mean.
func policies(ctx context.Context, s *session) (string, error) {
	var all []string
	err := s.read(ctx, `
SELECT COALESCE(array_agg(format('policy %I for %s: %s', policyname, cmd, COALESCE(qual, with_check)) ORDER BY policyname), '{"no policy, which hides every record"}')
  FROM pg_catalog.pg_policies
 WHERE schemaname = $1::text AND tablename = 'tool_dedup'`, []any{s.Schema}, &all)
	return strings.Join(all, "; "), err
}

// primaryKeyName is the name alone: what the key is made of is part of the schema's check. The
// library goes by that, people go by the name.
func primaryKeyName() check {
	return check{
		id: "primary_key_name", ofTable: true,
		sql: `SELECT k.conname AS name, quote_ident(k.conname) AS quoted, target."table", k.conname = 'tool_dedup_pkey' AS sound, k.conname <> 'tool_dedup_pkey' AS renamed
  FROM target
  JOIN pg_catalog.pg_constraint k ON k.conrelid = target.oid AND k.contype = 'p'`,
		judge: []judgement{{
			id: "primary_key_renamed", severity: SeverityWarning, when: "renamed",
			what:     "the primary key of {table} is not named tool_dedup_pkey: calls go by what it is made of, but later migrations and the runbook go by its name",
			evidence: "its name is {name}",
			fix:      "run: ALTER TABLE {table} RENAME CONSTRAINT {quoted} TO tool_dedup_pkey",
		}, {id: "primary_key_name", severity: SeverityOK, when: "sound", evidence: "{name}"}},
	}
}
