package doctor

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/inspect"
)

// schemaChecks reports the examiner's problems, and a primary key with another name. The examiner
// checks the key's columns, which calls depend on; people depend on the name.
func schemaChecks() []check {
	problem := func(severity Severity, when string) Finding {
		return Finding{ID: "{name}", Severity: severity, when: when, What: "{what}", Evidence: "{evidence}", Fix: "{fix}"}
	}
	return []check{{
		id: "schema", look: lookForProblems,
		judge: []Finding{
			problem(SeverityError, "error"), problem(SeverityWarning, "warning"),
			sound("schema", "sound", "{table} is there, and as the migrations make it"),
		},
	}, {
		id: "primary_key_name", ofTable: true,
		sql: `SELECT k.conname AS name, quote_ident(k.conname) AS quoted, target."table", k.conname = 'tool_dedup_pkey' AS sound, k.conname <> 'tool_dedup_pkey' AS renamed
  FROM target
  JOIN pg_catalog.pg_constraint k ON k.conrelid = target.oid AND k.contype = 'p'`,
		judge: []Finding{{
			ID: "primary_key_renamed", Severity: SeverityWarning, when: "renamed",
			What:     "the primary key of {table} is not named tool_dedup_pkey: calls go by what it is made of, but later migrations and the runbook go by its name",
			Evidence: "its name is {name}",
			Fix:      "run: ALTER TABLE {table} RENAME CONSTRAINT {quoted} TO tool_dedup_pkey",
		}, sound("primary_key_name", "sound", "{name}")},
	}}
}

// lookForProblems has one row for each problem of the examiner's list.
func lookForProblems(ctx context.Context, s *session) (rows []examiner.Row, err error) {
	var problems []examiner.Problem
	err = inspect.ReadOnly(ctx, s.pool, s.Timeout, func(tx pgx.Tx) (err error) {
		problems, err = examiner.FindProblems(ctx, tx, s.Schema)
		return err
	})
	if err == nil && problems == nil {
		return []examiner.Row{{"sound": true, "table": s.Table()}}, nil
	}
	for _, p := range problems {
		row := examiner.Row{"name": p.Name, "what": p.What, "fix": p.Fix, "evidence": "", "error": !p.Warning, "warning": p.Warning}
		if p.Name == "row_security" {
			var all string
			if err := s.read(ctx, policies, s.given(), &all); err != nil {
				return nil, err
			}
			row["evidence"] = all
		}
		rows = append(rows, row)
	}
	return rows, err
}

// policies lists the table's row security policies. An operator must judge whether they hide rows
// from the role.
const policies = `
SELECT COALESCE(string_agg(format('policy %I for %s: %s', policyname, cmd, COALESCE(qual, with_check)), '; ' ORDER BY policyname), 'no policy, which hides every record')
  FROM pg_catalog.pg_policies
 WHERE schemaname = @schema::text AND tablename = 'tool_dedup'`
