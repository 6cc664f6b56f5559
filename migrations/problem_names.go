package migrations

// The names of those problems that a deployment may wait for, or live with. The runbook lists
// all names; they are stable.
const (
	// ProblemTableMissing: the schema has no tool_dedup.
	ProblemTableMissing = "table_missing"
	// ProblemMigrationsPending: the table is there, but goose's version table
	// records fewer migrations than there are.
	ProblemMigrationsPending = "migrations_pending"
	// ProblemRowSecurity: row level security applies to the current role. It does no harm
	// while the policies let the role see and write every row.
	ProblemRowSecurity = "row_security"
	// ProblemPlainTables: tables that the current role may write to lie on this
	// node of a Citus cluster alone, beside a distributed tool_dedup. They do no harm while no
	// effect writes to them.
	ProblemPlainTables = "citus_plain_tables"
)
