package migrations_test

import "github.com/tooldedup/dedup/migrations"

func brokenTables() []broken {
	only := func(name string) []string { return []string{name} }
	return []broken{
		{
			name: "TableMissing",
			sql:  `DROP TABLE tool_dedup`,
			want: only(migrations.ProblemTableMissing), left: only(migrations.ProblemTableMissing),
		},
		{
			name: "NothingAtAll",
			sql:  `DROP TABLE tool_dedup, tool_dedup_version`,
			want: only(migrations.ProblemTableMissing), left: only(migrations.ProblemTableMissing),
		},
		{
			name: "SchemaMissing",
			sql:  `DROP SCHEMA public CASCADE`,
			want: only("schema_missing"), left: only("schema_missing"),
		},
		{
			name: "OnlyATemporaryTable",
			sql:  `CREATE TEMPORARY TABLE tool_dedup_copy (LIKE tool_dedup INCLUDING ALL); ALTER TABLE public.tool_dedup RENAME TO x; ALTER TABLE tool_dedup_copy RENAME TO tool_dedup`,
			want: only(migrations.ProblemTableMissing), left: only(migrations.ProblemTableMissing),
		},
		{
			name: "View",
			sql:  `ALTER TABLE tool_dedup RENAME TO records; CREATE VIEW tool_dedup AS SELECT * FROM records`,
			want: only("not_a_table"), left: only("not_a_table"),
		},
		{
			name: "MaterializedView",
			sql:  `ALTER TABLE tool_dedup RENAME TO records; CREATE MATERIALIZED VIEW tool_dedup AS SELECT * FROM records`,
			want: only("not_a_table"), left: only("not_a_table"),
		},
		{
			name: "ForeignTable",
			sql: `DROP TABLE tool_dedup; CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;
				CREATE FOREIGN TABLE tool_dedup (scope text) SERVER nowhere`,
			want: only("not_a_table"), left: only("not_a_table"),
		},
		{
			name: "Sequence",
			sql:  `DROP TABLE tool_dedup; CREATE SEQUENCE tool_dedup`,
			want: only("not_a_table"), left: only("not_a_table"),
		},
		{
			name: "MigrationsPending",
			sql:  `DELETE FROM tool_dedup_version WHERE version_id = 1`,
			want: only(migrations.ProblemMigrationsPending), left: only(migrations.ProblemMigrationsPending),
		},
		{
			name: "MigrationRolledBackAsOlderGooseRecordsIt",
			sql:  `UPDATE tool_dedup_version SET is_applied = false WHERE version_id = 1`,
			want: only(migrations.ProblemMigrationsPending), left: only(migrations.ProblemMigrationsPending),
		},
		{
			name: "NewerSchemaIsFine",
			sql:  `INSERT INTO tool_dedup_version (version_id, is_applied) VALUES (99, true)`,
		},
		{
			name: "SomebodyElsesVersionTableIsFine",
			sql:  `DROP TABLE tool_dedup_version; CREATE TABLE tool_dedup_version (note text)`,
		},
		{
			name: "Unlogged",
			sql:  `ALTER TABLE tool_dedup SET UNLOGGED`,
			want: only("unlogged"),
		},
		{
			name: "TriggerBeforeInsert",
			sql: nothing + `CREATE TRIGGER "My trigger" BEFORE INSERT OR UPDATE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing();
				ALTER TABLE tool_dedup ENABLE ALWAYS TRIGGER "My trigger"`,
			want: only("trigger"),
		},
		{
			name: "TriggerAfterInsert",
			sql:  nothing + `CREATE CONSTRAINT TRIGGER later AFTER INSERT ON tool_dedup DEFERRABLE FOR EACH ROW EXECUTE FUNCTION nothing()`,
			want: only("trigger"),
		},
		{
			name: "TriggerForTheStatement",
			sql:  nothing + `CREATE TRIGGER cleanup AFTER INSERT ON tool_dedup FOR EACH STATEMENT EXECUTE FUNCTION nothing()`,
			want: only("trigger"),
		},
		{
			name: "TriggerBeforeDelete",
			sql:  nothing + `CREATE TRIGGER keep BEFORE DELETE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing()`,
			want: only("trigger"),
		},
		{
			name: "TriggerBeforeUpdate",
			sql:  nothing + `CREATE TRIGGER keep BEFORE UPDATE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing()`,
			want: only("trigger"),
		},
		{
			name: "ReplicaIdentityNothingInAPublication",
			sql:  `CREATE PUBLICATION changes FOR TABLE tool_dedup; ALTER TABLE tool_dedup REPLICA IDENTITY NOTHING`,
			want: only("replica_identity"),
		},
		{
			name: "ReplicaIdentityNothingInAPublicationOfAllTables",
			sql:  `CREATE PUBLICATION changes FOR ALL TABLES WITH (publish = 'delete'); ALTER TABLE tool_dedup REPLICA IDENTITY NOTHING`,
			want: only("replica_identity"),
		},
		{
			name: "ReplicaIdentityNothingWithoutAPublicationIsFine",
			sql:  `ALTER TABLE tool_dedup REPLICA IDENTITY NOTHING`,
		},
		{
			name: "ReplicaIdentityNothingInAPublicationOfInsertsIsFine",
			sql:  `CREATE PUBLICATION changes FOR TABLE tool_dedup WITH (publish = 'insert'); ALTER TABLE tool_dedup REPLICA IDENTITY NOTHING`,
		},
		{
			name: "OtherTriggersAreFine",
			sql: nothing + `
				CREATE TRIGGER off BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing();
				ALTER TABLE tool_dedup DISABLE TRIGGER off;
				CREATE TRIGGER replica BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing();
				ALTER TABLE tool_dedup ENABLE REPLICA TRIGGER replica;
				CREATE TRIGGER counted BEFORE DELETE ON tool_dedup FOR EACH STATEMENT EXECUTE FUNCTION nothing();
				CREATE TRIGGER archive AFTER DELETE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing();
				CREATE TABLE scopes (scope text PRIMARY KEY COLLATE "C");
				ALTER TABLE tool_dedup ADD FOREIGN KEY (scope) REFERENCES scopes`,
		},
		{
			name: "Rule",
			sql:  `CREATE RULE keep AS ON DELETE TO tool_dedup DO INSTEAD NOTHING`,
			want: only("rule"),
		},
		{
			name: "DisabledRuleIsFine",
			sql:  `CREATE RULE keep AS ON DELETE TO tool_dedup DO INSTEAD NOTHING; ALTER TABLE tool_dedup DISABLE RULE keep`,
		},
		{
			name: "RowSecurityThatDoesNotApplyIsFine",
			sql:  `ALTER TABLE tool_dedup ENABLE ROW LEVEL SECURITY`,
		},
		{
			// The tests have no standby: the catalogue fakes one.
			name: "InRecovery",
			sql: `SET allow_system_table_mods = on;
				ALTER FUNCTION pg_catalog.pg_is_in_recovery() RENAME TO pg_is_really_in_recovery;
				CREATE FUNCTION pg_catalog.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
			want: only("in_recovery"), left: only("in_recovery"),
		},
	}
}

const nothing = `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';`
