package doctor_test

import "github.com/tooldedup/dedup/migrations"

const nothing = `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';`

// schemaScenarios are tables that are not as the migrations make them. All the
// ways in which package migrations tells them apart are tested there: here each
// of its problems is brought up once.
func schemaScenarios() []scenario {
	return []scenario{
		{name: "SchemaMissing", sql: `DROP SCHEMA public CASCADE`, errors: []string{"schema_missing"}},
		{name: "TableMissing", sql: `DROP TABLE tool_dedup`, errors: []string{migrations.ProblemTableMissing}},
		{name: "TableRenamed", sql: `ALTER TABLE tool_dedup RENAME TO dedup`, errors: []string{migrations.ProblemTableMissing}},
		{
			name:   "NotATable",
			sql:    `ALTER TABLE tool_dedup RENAME TO records; CREATE VIEW tool_dedup AS SELECT * FROM records`,
			errors: []string{"not_a_table"},
		},
		{name: "MigrationsPending", sql: `DELETE FROM tool_dedup_version WHERE version_id = 1`, errors: []string{migrations.ProblemMigrationsPending}},
		{
			name: "MigratedDownByOne", sql: `DROP TABLE tool_lookalike; DELETE FROM tool_dedup_version WHERE version_id = 2`,
			errors: []string{migrations.ProblemMigrationsPending},
		},
		{name: "EffectMissing", sql: `DROP TABLE tool_effect`, errors: []string{"effect_missing"}},
		{name: "EffectWithoutKey", sql: `ALTER TABLE tool_effect DROP CONSTRAINT tool_effect_pkey`, errors: []string{"effect_broken"}},
		{name: "AuditMissing", sql: `DROP TABLE tool_dedup_audit`, warnings: []string{"audit_missing"}},
		{name: "AuditWithoutKey", sql: `ALTER TABLE tool_dedup_audit DROP CONSTRAINT tool_dedup_audit_pkey`, warnings: []string{"audit_broken"}},
		{name: "StatMissing", sql: `DROP TABLE tool_dedup_stat`, warnings: []string{"stat_missing"}},
		{name: "StatWithoutKey", sql: `ALTER TABLE tool_dedup_stat DROP CONSTRAINT tool_dedup_stat_pkey`, warnings: []string{"stat_broken"}},
		{name: "LookalikeMissing", sql: `DROP TABLE tool_lookalike`, errors: []string{"lookalike_missing"}},
		{name: "LookalikeWithoutKey", sql: `ALTER TABLE tool_lookalike DROP CONSTRAINT tool_lookalike_pkey`, errors: []string{"lookalike_broken"}},
		{
			name:   "LookalikeWithASwallowingTrigger",
			sql:    nothing + `CREATE TRIGGER swallow BEFORE INSERT ON tool_lookalike FOR EACH ROW EXECUTE FUNCTION nothing()`,
			errors: []string{"lookalike_broken"},
		},

		{name: "ColumnMissing", sql: `ALTER TABLE tool_dedup DROP COLUMN arg_digests`, errors: []string{"column_missing"}},
		{name: "ColumnType", sql: `ALTER TABLE tool_dedup ALTER COLUMN key TYPE varchar(64) COLLATE "C"`, errors: []string{"column_type"}},
		{name: "Collation", sql: `ALTER TABLE tool_dedup ALTER COLUMN key TYPE text COLLATE "POSIX"`, errors: []string{"column_collation"}},
		{name: "CollationOfTheDatabase", sql: `ALTER TABLE tool_dedup ALTER COLUMN scope TYPE text COLLATE "default"`, errors: []string{"column_collation"}},
		{name: "ColumnNullable", sql: `ALTER TABLE tool_dedup ALTER COLUMN fingerprint DROP NOT NULL`, errors: []string{"column_nullable"}},
		{name: "ColumnNotNullable", sql: `ALTER TABLE tool_dedup ALTER COLUMN result SET NOT NULL`, errors: []string{"column_not_nullable"}},
		{name: "ColumnExtra", sql: `ALTER TABLE tool_dedup ADD COLUMN region text NOT NULL`, errors: []string{"column_extra"}},

		{name: "Unlogged", sql: `ALTER TABLE tool_dedup SET UNLOGGED`, errors: []string{"unlogged"}},
		{
			name:   "TriggerThatSwallowsTheInsert",
			sql:    nothing + `CREATE TRIGGER swallow BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing()`,
			errors: []string{"trigger"},
		},
		{
			name:   "TriggerThatKeepsRecords",
			sql:    nothing + `CREATE TRIGGER keep BEFORE DELETE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing()`,
			errors: []string{"trigger"},
		},
		{
			name: "TriggerOfReplicasInASessionThatIsOne",
			sql: nothing + `CREATE TRIGGER swallow BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing();
				ALTER TABLE tool_dedup ENABLE REPLICA TRIGGER swallow; ALTER DATABASE %database% SET session_replication_role = replica`,
			errors: []string{"trigger"},
		},
		{
			name: "TriggerThatDoesNotFireInASessionThatIsAReplica",
			sql: nothing + `CREATE TRIGGER swallow BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing();
				ALTER DATABASE %database% SET session_replication_role = replica`,
		},
		{name: "RuleThatSwallowsTheInsert", sql: `CREATE RULE swallow AS ON INSERT TO tool_dedup DO INSTEAD NOTHING`, errors: []string{"rule"}},
	}
}
