package migrations

// The names of problems. They are stable: a deployment may go by them.
const (
	// ProblemEncoding: the database's encoding is not UTF8.
	ProblemEncoding = "encoding_not_utf8"
	// ProblemInRecovery: the server is a standby, which cannot write and lags
	// behind the one that can.
	ProblemInRecovery = "in_recovery"
	// ProblemReadOnly: transactions of this role or database are read-only
	// unless they ask for more.
	ProblemReadOnly = "read_only"

	// ProblemSchemaMissing: there is no schema of the given name.
	ProblemSchemaMissing = "schema_missing"
	// ProblemTableMissing: the schema has no tool_dedup.
	ProblemTableMissing = "table_missing"
	// ProblemNotATable: tool_dedup is a view, a foreign table or something else
	// that is no table.
	ProblemNotATable = "not_a_table"
	// ProblemMigrationsPending: the table is there, but goose's version table
	// records fewer migrations than there are.
	ProblemMigrationsPending = "migrations_pending"

	// ProblemColumnMissing: a column is missing.
	ProblemColumnMissing = "column_missing"
	// ProblemColumnType: a column has another type.
	ProblemColumnType = "column_type"
	// ProblemColumnCollation: a text column of the identity, or the outcome, is
	// not COLLATE "C".
	ProblemColumnCollation = "column_collation"
	// ProblemColumnNullable: a column that must be NOT NULL is not.
	ProblemColumnNullable = "column_nullable"
	// ProblemColumnNotNullable: a column that must take NULL does not.
	ProblemColumnNotNullable = "column_not_nullable"
	// ProblemColumnExtra: a column of somebody else's is NOT NULL without a
	// default, so that no record can be inserted.
	ProblemColumnExtra = "column_extra"

	// ProblemPrimaryKeyMissing: the table has no primary key.
	ProblemPrimaryKeyMissing = "primary_key_missing"
	// ProblemPrimaryKeyColumns: the primary key has other columns than scope,
	// tool and key. Their order does not matter.
	ProblemPrimaryKeyColumns = "primary_key_columns"
	// ProblemPrimaryKeyDeferrable: the primary key is DEFERRABLE.
	ProblemPrimaryKeyDeferrable = "primary_key_deferrable"
	// ProblemPrimaryKeyInvalid: the index of the primary key is not valid.
	ProblemPrimaryKeyInvalid = "primary_key_invalid"
	// ProblemUniqueExtra: another unique index or an exclusion constraint on
	// the table.
	ProblemUniqueExtra = "unique_extra"

	// ProblemDueIndexMissing: the index tool_dedup_due is missing.
	ProblemDueIndexMissing = "due_index_missing"
	// ProblemDueIndexOther: tool_dedup_due indexes something else than the
	// sweep asks for.
	ProblemDueIndexOther = "due_index_other"
	// ProblemDueIndexInvalid: the index tool_dedup_due is not valid.
	ProblemDueIndexInvalid = "due_index_invalid"

	// ProblemUnlogged: the table, or a partition of it, is UNLOGGED, or the table is
	// temporary.
	ProblemUnlogged = "unlogged"
	// ProblemPartitionKey: the table is partitioned otherwise than by hash of
	// scope.
	ProblemPartitionKey = "partition_key"
	// ProblemPartitionMissing: the partitions leave some scopes out.
	ProblemPartitionMissing = "partition_missing"

	// ProblemCheckConstraint: a CHECK constraint on the table.
	ProblemCheckConstraint = "check_constraint"
	// ProblemForeignKey: a foreign key of the table deletes or changes records,
	// such as one with ON DELETE CASCADE.
	ProblemForeignKey = "foreign_key"
	// ProblemReplicaIdentity: a publication replicates changes of the table, and
	// its REPLICA IDENTITY is NOTHING, so that no record can be changed or deleted.
	ProblemReplicaIdentity = "replica_identity"

	// ProblemTrigger: an enabled trigger fires when a record is inserted, or
	// before one is changed or deleted.
	ProblemTrigger = "trigger"
	// ProblemRule: an enabled rule rewrites statements on the table.
	ProblemRule = "rule"
	// ProblemRowSecurity: row level security applies to the current role. More
	// of a warning than the others: it does no harm while the policies let the
	// role see and write every row.
	ProblemRowSecurity = "row_security"

	// ProblemSchemaUsage: the current role lacks USAGE on the schema.
	ProblemSchemaUsage = "schema_usage_missing"
	// ProblemPrivileges: the current role lacks SELECT, INSERT, UPDATE or
	// DELETE on the table.
	ProblemPrivileges = "privileges_missing"

	// ProblemNotDistributed: the database is a Citus cluster and the table is
	// not distributed by scope.
	ProblemNotDistributed = "citus_not_distributed"
	// ProblemPlainTables: tables that the current role may write to lie on this
	// node of a Citus cluster alone, beside a distributed tool_dedup.
	ProblemPlainTables = "citus_plain_tables"

	// ProblemLookalikeMissing: there is no table tool_lookalike.
	ProblemLookalikeMissing = "lookalike_missing"
	// ProblemLookalikeBroken: tool_lookalike is not as the migrations make it.
	ProblemLookalikeBroken = "lookalike_broken"

	// ProblemEffectMissing: there is no table tool_effect.
	ProblemEffectMissing = "effect_missing"
	// ProblemEffectBroken: tool_effect is not as the migrations make it.
	ProblemEffectBroken = "effect_broken"

	// ProblemAuditMissing: there is no table tool_dedup_audit.
	ProblemAuditMissing = "audit_missing"
	// ProblemAuditBroken: tool_dedup_audit is not as the migrations make it.
	ProblemAuditBroken = "audit_broken"

	// ProblemStatMissing: there is no table tool_dedup_stat.
	ProblemStatMissing = "stat_missing"
	// ProblemStatBroken: tool_dedup_stat is not as the migrations make it.
	ProblemStatBroken = "stat_broken"
)
