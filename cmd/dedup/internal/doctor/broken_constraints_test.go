package doctor_test

// constraintScenarios are tables that cannot decide who was first, and indexes
// that are not the sweep's.
func constraintScenarios() []scenario {
	const drop = `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey;`
	return []scenario{
		{name: "ArbiterMissing", sql: drop, errors: []string{"primary_key_missing"}},
		{
			name:   "ArbiterPartial",
			sql:    drop + `CREATE UNIQUE INDEX one_record ON tool_dedup (scope, tool, key) WHERE outcome = 'done'`,
			errors: []string{"primary_key_missing", "unique_extra"},
		},
		{
			name:   "ArbiterOfOtherColumns",
			sql:    drop + `ALTER TABLE tool_dedup ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key, created_at)`,
			errors: []string{"primary_key_columns"},
		},
		{
			name:   "ArbiterDeferrable",
			sql:    drop + `ALTER TABLE tool_dedup ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key) DEFERRABLE`,
			errors: []string{"primary_key_deferrable"},
		},
		{
			// As a CREATE INDEX CONCURRENTLY leaves it that was cut off.
			name: "ArbiterInvalid",
			sql: `SET allow_system_table_mods = on;
				UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'tool_dedup_pkey'::regclass`,
			errors: []string{"primary_key_invalid"},
		},
		{
			name:     "ArbiterRenamed",
			sql:      `ALTER TABLE tool_dedup RENAME CONSTRAINT tool_dedup_pkey TO "Who was first"`,
			warnings: []string{"primary_key_renamed"}, evidence: "its name is Who was first",
		},
		{
			name:   "CheckConstraint",
			sql:    `ALTER TABLE tool_dedup ADD CHECK (result IS NOT NULL)`,
			errors: []string{"check_constraint"},
		},
		{
			name: "ForeignKeyThatDeletesRecords",
			sql: `CREATE TABLE tenants (name text PRIMARY KEY COLLATE "C");
				ALTER TABLE tool_dedup ADD FOREIGN KEY (scope) REFERENCES tenants ON DELETE CASCADE`,
			errors: []string{"foreign_key"},
		},
		{
			name:   "ReplicaIdentityNothing",
			sql:    `CREATE PUBLICATION changes FOR TABLE tool_dedup; ALTER TABLE tool_dedup REPLICA IDENTITY NOTHING`,
			errors: []string{"replica_identity"},
		},
		{name: "UniqueExtra", sql: `CREATE UNIQUE INDEX one_result ON tool_dedup (scope, tool)`, errors: []string{"unique_extra"}},

		{name: "DueIndexMissing", sql: `DROP INDEX tool_dedup_due`, warnings: []string{"due_index_missing"}},
		{
			name:     "DueIndexOther",
			sql:      `DROP INDEX tool_dedup_due; CREATE INDEX tool_dedup_due ON tool_dedup (expires_at)`,
			warnings: []string{"due_index_other"},
		},
		{
			name: "DueIndexInvalid",
			sql: `SET allow_system_table_mods = on;
				UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'tool_dedup_due'::regclass`,
			warnings: []string{"due_index_invalid"},
		},
	}
}

func partitionScenarios() []scenario {
	const (
		byTime = `
			ALTER TABLE tool_dedup RENAME TO template;
			CREATE TABLE tool_dedup (LIKE template INCLUDING DEFAULTS) PARTITION BY RANGE (created_at);
			DROP TABLE template;
			ALTER TABLE tool_dedup ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key, created_at);
			CREATE INDEX tool_dedup_due ON tool_dedup ((CASE WHEN result IS NULL THEN forget_at ELSE expires_at END));
			CREATE TABLE tool_dedup_all PARTITION OF tool_dedup DEFAULT;`
		byScope = `
			ALTER TABLE tool_dedup RENAME TO template;
			CREATE TABLE tool_dedup (LIKE template INCLUDING DEFAULTS) PARTITION BY HASH (scope);
			DROP TABLE template;
			ALTER TABLE tool_dedup ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key);
			CREATE INDEX tool_dedup_due ON tool_dedup ((CASE WHEN result IS NULL THEN forget_at ELSE expires_at END));
			CREATE TABLE tool_dedup_0 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 2, REMAINDER 0);`
	)
	return []scenario{
		{name: "PartitionedByTime", sql: byTime, errors: []string{"primary_key_columns", "partition_key"}},
		{name: "PartitionMissing", sql: byScope, errors: []string{"partition_missing"}},
		{
			name: "PartitionedByScopeIsFine",
			sql:  byScope + `CREATE TABLE tool_dedup_1 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
		},
	}
}
