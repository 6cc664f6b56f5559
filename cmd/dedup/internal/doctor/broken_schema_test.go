package doctor_test

import "github.com/tooldedup/dedup/migrations"

// schemaScenarios are tables that are not as the migrations make them. All problems of the examiner's are
// planted in the tests of package migrations: here are an error, a warning and what the doctor adds.
func schemaScenarios() []scenario {
	return []scenario{
		{name: "SchemaMissing", sql: `DROP SCHEMA public CASCADE`, errors: []string{"schema_missing"}},
		{name: "TableMissing", sql: `DROP TABLE tool_dedup`, errors: []string{migrations.ProblemTableMissing}},
		{name: "Unlogged", sql: `ALTER TABLE tool_dedup SET UNLOGGED`, errors: []string{"unlogged"}},
		{name: "AuditMissing", sql: `DROP TABLE tool_dedup_audit`, warnings: []string{"audit_missing"}},
		{
			name:     "PrimaryKeyRenamed",
			sql:      `ALTER TABLE tool_dedup RENAME CONSTRAINT tool_dedup_pkey TO "Who was first"`,
			warnings: []string{"primary_key_renamed"}, evidence: "its name is Who was first",
		},
	}
}
