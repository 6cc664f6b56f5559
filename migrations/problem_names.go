package migrations

// Names of problems that a deployment may wait for or tolerate. Names are stable, and
// docs/operations.md lists them all.
const (
	// ProblemTableMissing: the schema has no tool_dedup.
	ProblemTableMissing = "table_missing"
	// ProblemMigrationsPending: tool_dedup exists, but goose's version table does not record every
	// migration.
	ProblemMigrationsPending = "migrations_pending"
	// ProblemRowSecurity: row level security applies to the current role. It does no harm while the
	// policies let the role read and write every row.
	ProblemRowSecurity = "row_security"
	// ProblemPlainTables: on a Citus cluster with a distributed tool_dedup, the current role may
	// write to tables that only this node has. They do no harm while no effect writes to them.
	ProblemPlainTables = "citus_plain_tables"
)
