package doctor_test

import "github.com/tooldedup/dedup/migrations"

// schemaScenarios have tables that differ from the migrations. The tests of package migrations
// cover every problem of the examiner. Here are one error, one warning, and the checks that only
// the doctor has.
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
