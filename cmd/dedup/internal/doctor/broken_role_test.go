package doctor_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

// roleScenarios have roles with missing privileges, and roles whose settings are wrong.
func roleScenarios() []scenario {
	off := []string{"synchronous_commit_off"}
	return []scenario{
		{name: "PlainRoleIsFine", asRole: true, sql: `SELECT`},
		{
			name: "SchemaUsageMissing", asRole: true, sql: `REVOKE USAGE ON SCHEMA public FROM PUBLIC`,
			errors: []string{"schema_usage_missing"}, unknown: []string{"sweep"},
			evidence: "(SQLSTATE 42501)",
		},
		{
			name: "MayNotRead", asRole: true, sql: `REVOKE SELECT ON tool_dedup FROM %role%`,
			errors: []string{"privileges_missing"}, unknown: []string{"sweep"},
			evidence: "(SQLSTATE 42501)",
		},
		{
			name: "MayNotSend", asRole: true, sql: `REVOKE INSERT ON tool_effect FROM %role%`,
			errors: []string{"effect_broken"},
		},
		{
			name: "RowSecurityWithoutScope", asRole: true,
			sql: `ALTER TABLE tool_dedup ENABLE ROW LEVEL SECURITY;
				CREATE POLICY mine ON tool_dedup USING (tool = current_user)`,
			errors: []string{migrations.ProblemRowSecurity}, evidence: "policy mine for ALL: (tool = CURRENT_USER)",
		},
		{
			name: "RowSecurityWithoutPolicies", asRole: true, sql: `ALTER TABLE tool_dedup ENABLE ROW LEVEL SECURITY`,
			errors: []string{migrations.ProblemRowSecurity}, evidence: "no policy, which hides every record",
		},
		{
			name: "ClientEncoding", sql: `ALTER DATABASE %database% SET client_encoding = 'LATIN1'`,
			errors: []string{"client_encoding_not_utf8"}, evidence: "client_encoding = latin1, set for database ",
		},
		{
			name: "Encoding",
			place: func(t *testing.T) place {
				server := private(t, nil)
				exec(t, server.URL, `CREATE DATABASE latin1 TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'`)
				url := withParam(t, server.URL, "dbname", "latin1")
				sql, err := migrations.SQL()
				if err != nil {
					t.Fatal(err)
				}
				exec(t, url, sql)
				return place{url: url, owner: url}
			},
			// A client that does not ask for another gets the database's.
			errors: []string{"encoding_not_utf8", "client_encoding_not_utf8"},
		},

		{
			name: "SynchronousCommitOffForTheRole", asRole: true, sql: `ALTER ROLE %role% SET synchronous_commit = off`,
			warnings: off, evidence: "synchronous_commit = off, set for role ",
		},
		{
			name: "SynchronousCommitOffForTheDatabase", asRole: true, sql: `ALTER DATABASE %database% SET synchronous_commit = 'FALSE'`,
			warnings: off, evidence: "synchronous_commit = off, set for database ",
		},
		{
			name: "SynchronousCommitOffForTheRoleInTheDatabase", asRole: true,
			sql:      `ALTER ROLE %role% SET synchronous_commit = on; ALTER ROLE %role% IN DATABASE %database% SET synchronous_commit = off`,
			warnings: off, evidence: " in database ",
		},
		{
			name: "SynchronousCommitOffForAllRoles",
			place: func(t *testing.T) place {
				server := private(t, nil)
				exec(t, server.URL, `ALTER ROLE ALL SET synchronous_commit = off`)
				return place{url: server.URL, owner: server.URL}
			},
			warnings: off, evidence: "synchronous_commit = off, set for all roles",
		},
		{
			name: "SynchronousCommitOffByTheConnection",
			place: func(t *testing.T) place {
				db := pgtest.New(t)
				exec(t, db.URL, `ALTER DATABASE `+pgx.Identifier{db.Name}.Sanitize()+` SET synchronous_commit = on`)
				return place{url: withParam(t, db.URL, "synchronous_commit", "off"), owner: db.URL, before: examine(t, db.URL)}
			},
			warnings: off, evidence: "synchronous_commit = off, asked for by the connection",
		},
		{
			name: "SynchronousCommitOffForAnotherRoleIsFine",
			sql:  `ALTER ROLE %role% SET synchronous_commit = off`,
		},
		{
			name: "SynchronousCommitOffForTheDatabaseAndOnForTheRoleIsFine", asRole: true,
			sql:      `ALTER DATABASE %database% SET synchronous_commit = off; ALTER ROLE %role% SET synchronous_commit = on`,
			evidence: "synchronous_commit = on, set for role ",
		},
		{
			// The pooler's connection is older than the setting.
			name: "SynchronousCommitOffForSessionsToCome",
			place: func(t *testing.T) place {
				db := pgtest.New(t)
				p := place{url: withParam(t, throughPooler(t, db.URL), "default_query_exec_mode", "exec"), owner: db.URL}
				p.before = examine(t, p.url)
				exec(t, p.url, `ALTER DATABASE `+pgx.Identifier{db.Name}.Sanitize()+` SET synchronous_commit = off`)
				return p
			},
			warnings: off, evidence: "synchronous_commit = off, set for database ",
		},
	}
}
