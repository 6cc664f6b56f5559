package migrations_test

// partitioned turns tool_dedup into a partitioned table. The statements of a case make its
// partitions.
func partitioned(by string) string {
	return `
		ALTER TABLE tool_dedup RENAME TO template;
		CREATE TABLE tool_dedup (LIKE template INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY ` + by + `;
		DROP TABLE template;
		ALTER TABLE tool_dedup ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key);
		CREATE INDEX tool_dedup_due ON tool_dedup ((CASE WHEN result IS NULL THEN forget_at ELSE expires_at END));`
}

func brokenPartitions() []broken {
	only := func(name string) []string { return []string{name} }
	const halves = `
		CREATE TABLE tool_dedup_0 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 2, REMAINDER 0);
		CREATE TABLE tool_dedup_1 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 2, REMAINDER 1);`
	return []broken{
		{
			name: "PartitionedByHashOfScopeIsFine",
			sql:  partitioned("HASH (scope)") + halves,
		},
		{
			name: "PartitionsOfUnequalSizeAreFine",
			sql: partitioned("HASH (scope)") + `
				CREATE TABLE t0 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 3, REMAINDER 0);
				CREATE TABLE t1 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 3, REMAINDER 1);
				CREATE TABLE t2 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 6, REMAINDER 2);
				CREATE TABLE t5 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 6, REMAINDER 5)`,
		},
		{
			name: "PartitionedByHashOfKey",
			sql:  partitioned("HASH (key)") + halves,
			want: only("partition_key"), left: only("partition_key"),
		},
		{
			name: "PartitionedByHashOfTwo",
			sql:  partitioned("HASH (scope, key)") + halves,
			want: only("partition_key"), left: only("partition_key"),
		},
		{
			name: "PartitionedByList",
			sql:  partitioned("LIST (scope)") + `CREATE TABLE tool_dedup_rest PARTITION OF tool_dedup DEFAULT`,
			want: only("partition_key"), left: only("partition_key"),
		},
		{
			// Partitions by time need the time in the primary key.
			name: "PartitionedByTime",
			sql: `ALTER TABLE tool_dedup RENAME TO template;
				CREATE TABLE tool_dedup (LIKE template INCLUDING CONSTRAINTS, PRIMARY KEY (scope, tool, key, created_at)) PARTITION BY RANGE (created_at);
				DROP TABLE template;
				CREATE INDEX tool_dedup_due ON tool_dedup ((CASE WHEN result IS NULL THEN forget_at ELSE expires_at END))`,
			want: []string{"primary_key_columns", "partition_key"},
			left: []string{"primary_key_columns", "partition_key"},
		},
		{
			name: "PartitionMissing",
			sql:  partitioned("HASH (scope)") + halves + `DROP TABLE tool_dedup_0`,
			want: only("partition_missing"), left: only("partition_missing"),
		},
		{
			name: "PartitionsMissing",
			sql:  partitioned("HASH (scope)"),
			want: only("partition_missing"), left: only("partition_missing"),
		},
		{
			name: "PartitionUnlogged",
			sql:  partitioned("HASH (scope)") + halves + `ALTER TABLE tool_dedup_1 SET UNLOGGED`,
			want: only("unlogged"),
		},
		{
			name: "PartitionWithAUniqueIndex",
			sql:  partitioned("HASH (scope)") + halves + `CREATE UNIQUE INDEX one ON tool_dedup_1 (key)`,
			want: only("unique_extra"),
		},
		{
			name: "UniqueIndexOfPartitionsIsReportedOnce",
			sql:  partitioned("HASH (scope)") + halves + `CREATE UNIQUE INDEX one ON tool_dedup (scope)`,
			want: only("unique_extra"),
		},
		{
			name: "PartitionWithATrigger",
			sql:  partitioned("HASH (scope)") + halves + nothing + `CREATE TRIGGER t AFTER INSERT ON tool_dedup_0 FOR EACH ROW EXECUTE FUNCTION nothing()`,
			want: only("trigger"),
		},
		{
			name: "PartitionThatItsParentsPublicationCannotReplicate",
			sql: partitioned("HASH (scope)") + halves + `ALTER TABLE tool_dedup_1 REPLICA IDENTITY NOTHING;
				CREATE PUBLICATION changes FOR TABLE tool_dedup WITH (publish_via_partition_root)`,
			want: only("replica_identity"),
		},
		{
			name: "CheckOfPartitionsIsReportedOnce",
			sql:  partitioned("HASH (scope)") + halves + `ALTER TABLE tool_dedup ADD CHECK (result <> '')`,
			want: only("check_constraint"),
		},
		{
			name: "ForeignKeyOfPartitionsIsReportedOnce",
			sql: partitioned("HASH (scope)") + halves + `CREATE TABLE tenants (name text PRIMARY KEY COLLATE "C");
				ALTER TABLE tool_dedup ADD FOREIGN KEY (scope) REFERENCES tenants ON DELETE CASCADE`,
			want: only("foreign_key"),
		},
		{
			name: "TriggerOfPartitionsIsReportedOnce",
			sql:  partitioned("HASH (scope)") + halves + nothing + `CREATE TRIGGER t AFTER INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION nothing()`,
			want: only("trigger"),
		},
	}
}
