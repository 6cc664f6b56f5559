package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/migrations"
)

// checkSchema is migrations.Check: one finding for each of its problems.
func checkSchema(ctx context.Context, s *session) ([]Finding, error) {
	err := s.readOnly(ctx, func(tx pgx.Tx) error {
		return migrations.Check(ctx, tx, &migrations.CheckOptions{Schema: s.Schema})
	})
	var schema *migrations.SchemaError
	if !errors.As(err, &schema) {
		if err != nil {
			return nil, err
		}
		return []Finding{sound("schema", s.Table()+" is there, and as the migrations make it")}, nil
	}

	var found []Finding
	for _, problem := range schema.Problems {
		f := Finding{ID: problem.Name, Severity: problemSeverity(problem.Name), What: problem.What, Fix: problem.Fix}
		if problem.Name == migrations.ProblemRowSecurity {
			if f.Evidence, err = policies(ctx, s); err != nil {
				return nil, err
			}
		}
		found = append(found, f)
	}
	return found, nil
}

// problemSeverity: all that package migrations reports makes calls fail or run
// twice, but for the index of the sweep and the tables that operators read.
func problemSeverity(name string) Severity {
	harmless := []string{
		"due_index_missing", "due_index_other", "due_index_invalid",
		"audit_missing", "audit_broken", "stat_missing", "stat_broken",
	}
	if slices.Contains(harmless, name) {
		return SeverityWarning
	}
	return SeverityError
}

// policies lists the table's policies: whether they hide anything from the role
// is for somebody to judge who knows what they mean.
func policies(ctx context.Context, s *session) (string, error) {
	var all []string
	err := s.read(ctx, `
		SELECT COALESCE(array_agg(format('policy %I for %s: %s', policyname, cmd, COALESCE(qual, with_check)) ORDER BY policyname), '{}')
		  FROM pg_catalog.pg_policies
		 WHERE schemaname = $1::text AND tablename = 'tool_dedup'`, []any{s.Schema}, &all)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "no policy, which hides every record", nil
	}
	return strings.Join(all, "; "), nil
}

// checkPrimaryKeyName looks at the name alone: what the key is made of is part
// of the schema's check. The library goes by that, people go by the name.
func checkPrimaryKeyName(ctx context.Context, s *session) ([]Finding, error) {
	const id, want = "primary_key_name", "tool_dedup_pkey"
	var name *string
	err := s.read(ctx, `
		SELECT (SELECT k.conname
		          FROM pg_catalog.pg_constraint k
		          JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
		          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		         WHERE n.nspname = $1::text AND c.relname = 'tool_dedup' AND k.contype = 'p')`, []any{s.Schema}, &name)
	switch {
	case err != nil:
		return nil, err
	case name == nil:
		return nil, nil // there is none, which the schema's findings say
	case *name == want:
		return []Finding{sound(id, want)}, nil
	}
	return []Finding{{
		ID: IDPrimaryKeyRenamed, Severity: SeverityWarning,
		What:     "the primary key of " + s.Table() + " is not named " + want + ": calls go by what it is made of, but later migrations and the runbook go by its name",
		Evidence: "its name is " + *name,
		Fix:      "run: ALTER TABLE " + s.Table() + " RENAME CONSTRAINT " + pgx.Identifier{*name}.Sanitize() + " TO " + want,
	}}, nil
}
