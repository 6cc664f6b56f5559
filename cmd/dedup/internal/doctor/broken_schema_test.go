package doctor_test

import "github.com/tooldedup/dedup/migrations"

const nothing = `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';`

// schemaScenarios are tables that are not as the migrations make them. All the
// ways in which package migrations tells them apart are tested there: here each
// of its problems is brought up once.
func schemaScenarios() []scenario {
	return []scenario{
		{name: "SchemaMissing", sql: `DROP SCHEMA public CASCADE`, errors: []string{migrations.ProblemSchemaMissing}},
		{name: "TableMissing", sql: `DROP TABLE tool_dedup`, errors: []string{migrations.ProblemTableMissing}},
		{name: "TableRenamed", sql: `ALTER TABLE tool_dedup RENAME TO dedup`, errors: []string{migrations.ProblemTableMissing}},
		{
			name:   "NotATable",
			sql:    `ALTER TABLE tool_dedup RENAME TO records; CREATE VIEW tool_dedup AS SELECT * FROM records`,
			errors: []string{migrations.ProblemNotATable},
		},
		{name: "MigrationsPending", sql: `DELETE FROM tool_dedup_version WHERE version_id = 1`, errors: []string{migrations.ProblemMigrationsPending}},
		{
			name: "MigratedDownByOne", sql: `DROP TABLE tool_lookalike; DELETE FROM tool_dedup_version WHERE version_id = 2`,
			errors: []string{migrations.ProblemMigrationsPending},
		},
		{name: "EffectMissing", sql: `DROP TABLE tool_effect`, errors: []string{migrations.ProblemEffectMissing}},
		{name: "EffectWithoutKey", sql: `ALTER TABLE tool_effect DROP CONSTRAINT tool_effect_pkey`, errors: []string{migrations.ProblemEffectBroken}},
		{name: "AuditMissing", sql: `DROP TABLE tool_dedup_audit`, warnings: []string{migrations.ProblemAuditMissing}},
		{name: "AuditWithoutKey", sql: `ALTER TABLE tool_dedup_audit DROP CONSTRAINT tool_dedup_audit_pkey`, warnings: []string{migrations.ProblemAuditBroken}},
		{name: "StatMissing", sql: `DROP TABLE tool_dedup_stat`, warnings: []string{migrations.ProblemStatMissing}},
		{name: "StatWithoutKey", sql: `ALTER TABLE tool_dedup_stat DROP CONSTRAINT tool_dedup_stat_pkey`, warnings: []string{migrations.ProblemStatBroken}},
		{name: "LookalikeMissing", sql: `DROP TABLE tool_lookalike`, errors: []string{migrations.ProblemLookalikeMissing}},
		{name: "LookalikeWithoutKey", sql: `ALTER TABLE tool_lookalike DROP CONSTRAINT tool_lookalike_pkey`, errors: []string{migrations.ProblemLookalikeBroken}},
		{
			name:   "LookalikeWithASwallowingTrigger",
			sql:    nothing + `CREATE TRIGGER swallow BEFORE INSERT ON tool_lookalike FOR EACH ROW EXECUTE FUNCTION nothing()`,
			errors: []string{migrations.ProblemLookalikeBroken},
		},

		{name: "ColumnMissing", sql: `ALTER TABLE tool_dedup DROP COLUMN arg_digests`, errors: []string{migrations.ProblemColumnMissing}},
		{name: "ColumnType", sql: `ALTER TABLE tool_dedup ALTER COLUMN key TYPE varchar(64) COLLATE "C"`, errors: []string{migrations.ProblemColumnType}},
		{name: "Collation", sql: `ALTER TABLE tool_dedup ALTER COLUMN key TYPE text COLLATE "POSIX"`, errors: []string{migrations.ProblemColumnCollation}},
		{name: "CollationOfTheDatabase", sql: `ALTER TABLE tool_dedup ALTER COLUMN scope TYPE text COLLATE "default"`, errors: []string{migrations.ProblemColumnCollation}},
		{name: "ColumnNullable", sql: `ALTER TABLE tool_dedup ALTER COLUMN fingerprint DROP NOT NULL`, errors: []string{migrations.ProblemColumnNullable}},
		{name: "ColumnNotNullable", sql: `ALTER TABLE tool_dedup ALTER COLUMN result SET NOT NULL`, errors: []string{migrations.ProblemColumnNotNullable}},
		{name: "ColumnExtra", sql: `ALTER TABLE tool_dedup ADD COLUMN region text NOT NULL`, errors: []string{migrations.ProblemColumnExtra}},

		{name: "Unlogged", sql: `ALTER TABLE tool_dedup SET UNLOGGED`, errors: []string{migrations.ProblemUnlogged}},
		{
			name:   "TriggerThatSwallowsTheInsert",
			sql:    nothing + `CREATE TRIGGER swallow BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing()`,
			errors: []string{migrations.ProblemTrigger},
		},
		{
			name:   "TriggerThatKeepsRecords",
			sql:    nothing + `CREATE TRIGGER keep BEFORE DELETE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing()`,
			errors: []string{migrations.ProblemTrigger},
		},
		{
			name: "TriggerOfReplicasInASessionThatIsOne",
			sql: nothing + `CREATE TRIGGER swallow BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing();
				ALTER TABLE tool_dedup ENABLE REPLICA TRIGGER swallow; ALTER DATABASE %database% SET session_replication_role = replica`,
			errors: []string{migrations.ProblemTrigger},
		},
		{
			name: "TriggerThatDoesNotFireInASessionThatIsAReplica",
			sql: nothing + `CREATE TRIGGER swallow BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing();
				ALTER DATABASE %database% SET session_replication_role = replica`,
		},
		{name: "RuleThatSwallowsTheInsert", sql: `CREATE RULE swallow AS ON INSERT TO tool_dedup DO INSTEAD NOTHING`, errors: []string{migrations.ProblemRule}},
	}
}
