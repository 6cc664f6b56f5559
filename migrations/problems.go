package migrations

import (
	"fmt"
	"slices"
	"strings"
)

// problems lists what is wrong, in the order in which it is best repaired.
func (c *catalog) problems() ([]Problem, error) {
	found := c.serverProblems()
	switch {
	case !c.SchemaFound:
		return append(found, problem(ProblemSchemaMissing,
			"there is no schema "+c.Schema+" in database "+c.Database,
			"create it, or name the right one in Schema; then run `dedup migrate up`")), nil
	case c.dedup() == nil:
		return append(found, c.tableMissing()), nil
	case !c.dedup().isTable():
		return append(found, problem(ProblemNotATable,
			fmt.Sprintf("%s is %s, not a table", c.dedup().Name, relationKind(c.dedup().Kind)),
			"rename or drop it and run `dedup migrate up`")), nil
	}

	all, err := versions()
	if err != nil {
		return nil, err
	}
	t, wanted := c.dedup(), wantedDedup()
	return slices.Concat(found,
		c.pendingProblems(all),
		t.columnProblems(wanted.columns),
		t.primaryKeyProblems(wanted),
		t.uniqueProblems(),
		t.constraintProblems(),
		t.dueIndexProblems(),
		t.storageProblems(),
		t.hookProblems(),
		c.accessProblems(),
		c.citusProblems(),
		c.lookalikeProblems()), nil
}

// tableMissing is the problem that there is no tool_dedup.
func (c *catalog) tableMissing() Problem {
	what := "there is no table " + c.Schema + ".tool_dedup in database " + c.Database
	if slices.Contains(c.Applied, dedupMigration) {
		return problem(ProblemTableMissing,
			what+", although "+c.Schema+"."+VersionTable+" records the migration that makes it",
			"restore it; or run `dedup migrate up --recreate`, which makes one that knows no earlier call, so that each can run again")
	}
	return problem(ProblemTableMissing, what,
		"run `dedup migrate up`, or apply migrations.FS with the application's goose or the output of `dedup migrate print`")
}

// lookalikeProblems are those of tool_lookalike. A program without tools that
// have a look-alike guard does without it, but Check cannot know which that is.
func (c *catalog) lookalikeProblems() []Problem {
	t := c.lookalike()
	if t != nil && t.isTable() {
		wanted := wantedLookalike()
		found := slices.Concat(
			t.columnProblems(wanted.columns), t.primaryKeyProblems(wanted), t.uniqueProblems(), t.constraintProblems(), t.hookProblems())
		for i := range found {
			found[i].Name = ProblemLookalikeBroken
		}
		return found
	}
	// A pending migration that makes it is a problem already.
	if t == nil && len(c.Applied) > 0 && !slices.Contains(c.Applied, lookalikeMigration) {
		return nil
	}
	fix := "run `dedup migrate up`; where the schema is applied by other means than goose, apply 00002_tool_lookalike.sql of `dedup migrate print`"
	if slices.Contains(c.Applied, lookalikeMigration) {
		fix = "run `dedup migrate up --recreate`"
	}
	if t != nil {
		fix = "rename or drop it; then " + fix
	}
	return []Problem{problem(ProblemLookalikeMissing,
		"there is no table "+c.Schema+".tool_lookalike in database "+c.Database+": calls of tools with a look-alike guard are refused", fix)}
}

func (c *catalog) serverProblems() []Problem {
	var found []Problem
	if c.Encoding != "UTF8" {
		found = append(found, problem(ProblemEncoding,
			fmt.Sprintf("database %s is encoded in %s, which cannot hold every key and result as it is", c.Database, c.Encoding),
			"move to a database created with ENCODING 'UTF8'"))
	}
	if c.InRecovery {
		found = append(found, problem(ProblemInRecovery,
			"the server is a standby: it cannot write, and does not know the latest records",
			"connect to the primary, for example with target_session_attrs=read-write"))
	}
	// On a standby that is nothing that could be changed.
	if c.ReadOnly && !c.InRecovery {
		found = append(found, problem(ProblemReadOnly,
			"default_transaction_read_only is on for role "+c.Role+", so that no effect can write",
			"turn it off where it was set: for the role, the database or the connection (some providers set it when a disk is full)"))
	}
	return found
}

// pendingProblems compares the versions of all migrations with those that goose
// has recorded, where it has.
func (c *catalog) pendingProblems(all []int64) []Problem {
	if c.Applied == nil {
		return nil
	}
	var pending []string
	for _, version := range all {
		if !slices.Contains(c.Applied, version) {
			pending = append(pending, fmt.Sprint(version))
		}
	}
	if len(pending) == 0 {
		return nil
	}
	versionTable := c.Schema + "." + VersionTable
	if !slices.Contains(c.Applied, dedupMigration) {
		// Goose would stumble over the table.
		return []Problem{problem(ProblemMigrationsPending,
			fmt.Sprintf("%s is there, but %s does not record the migration that makes it: the schema is applied by half, or by other means than goose", c.dedup().Name, versionTable),
			"if it is applied by other means, drop "+versionTable+"; otherwise drop or restore both")}
	}
	return []Problem{problem(ProblemMigrationsPending,
		fmt.Sprintf("the schema is applied by half: %s does not record migration %s", versionTable, strings.Join(pending, ", ")),
		"run `dedup migrate up`, or the application's goose")}
}

func (t *catalogTable) storageProblems() []Problem {
	var found []Problem
	for _, name := range t.Unlogged {
		found = append(found, problem(ProblemUnlogged,
			name+" is UNLOGGED: a server crash empties it, and every call of before can run again",
			run("ALTER TABLE %s SET LOGGED", name)))
	}
	for _, name := range t.Unreplicated {
		found = append(found, problem(ProblemReplicaIdentity,
			fmt.Sprintf("%s is in a publication and its REPLICA IDENTITY is NOTHING: no record can be changed or deleted, so that sweeps, Reset and the calls of forgotten identities fail", name),
			run("ALTER TABLE %s REPLICA IDENTITY DEFAULT", name)))
	}
	if t.Kind != "p" {
		return found
	}
	if t.PartitionKey != distribution {
		found = append(found, problem(ProblemPartitionKey,
			fmt.Sprintf("%s is partitioned by %s; only %s keeps every identity in a partition that is always there", t.Name, t.PartitionKey, distribution),
			"move the rows to a table that is not partitioned, or by "+distribution))
		return found
	}
	const rounding = 1e-9
	if t.PartitionsCover < 1-rounding {
		found = append(found, problem(ProblemPartitionMissing,
			fmt.Sprintf("the partitions of %s take %.0f%% of all scopes; calls of the others are refused", t.Name, 100*t.PartitionsCover),
			"create a partition for every remainder"))
	}
	return found
}

func (t *catalogTable) hookProblems() []Problem {
	var found []Problem
	for _, g := range t.Triggers {
		what := "fires when a record is inserted into %[2]s: it can swallow, change or delete the record, or refuse it for reasons of its own"
		if !g.Inserts {
			what = "fires before a record of %[2]s is changed or deleted: it can keep that from happening, without an error"
		}
		found = append(found, problem(ProblemTrigger,
			fmt.Sprintf("trigger %[1]s "+what, g.Name, g.Table),
			run("ALTER TABLE %s DISABLE TRIGGER %s", g.Table, g.Name)))
	}
	for _, w := range t.Rules {
		found = append(found, problem(ProblemRule,
			fmt.Sprintf("rule %s rewrites statements on %s", w.Name, w.Table),
			run("ALTER TABLE %s DISABLE RULE %s", w.Table, w.Name)))
	}
	return found
}

// accessProblems are those of the current role.
func (c *catalog) accessProblems() []Problem {
	var found []Problem
	if !c.SchemaUsage {
		found = append(found, problem(ProblemSchemaUsage,
			fmt.Sprintf("role %s lacks USAGE on schema %s", c.Role, c.Schema),
			run("GRANT USAGE ON SCHEMA %s TO %s", c.Schema, c.Role)))
	}
	if lacks := strings.Join(c.dedup().LacksPrivileges, ", "); lacks != "" {
		found = append(found, problem(ProblemPrivileges,
			fmt.Sprintf("role %s lacks %s on %s", c.Role, lacks, c.dedup().Name),
			run("GRANT %s ON %s TO %s", lacks, c.dedup().Name, c.Role)))
	}
	if c.dedup().RowSecurity {
		found = append(found, problem(ProblemRowSecurity,
			fmt.Sprintf("row level security of %s applies to role %s: a policy that hides a record makes its call fail instead of replaying it", c.dedup().Name, c.Role),
			fmt.Sprintf("let the role bypass it (ALTER ROLE %s BYPASSRLS), or switch it off (ALTER TABLE %s DISABLE ROW LEVEL SECURITY): every statement of the library names its scope", c.Role, c.dedup().Name)))
	}
	return found
}

func (c *catalog) citusProblems() []Problem {
	if !c.HasCitus {
		return nil
	}
	table := c.dedup().Name
	if c.Citus != nil && (c.Citus.Column == "scope" || c.Citus.SingleShard) {
		return c.plainTableProblems()
	}
	what := table + " is not distributed on this Citus cluster"
	if c.Citus != nil {
		what = table + " is on this Citus cluster not distributed by scope"
	}
	return []Problem{problem(ProblemNotDistributed,
		what+": a record and the effect on a distributed table are then not one atomic transaction",
		fmt.Sprintf("distribute it by scope, beside the application's tables: SELECT create_distributed_table('%s', 'scope', colocate_with => …). "+
			`The column that those are distributed by must be text COLLATE "C", as scope is`, strings.ReplaceAll(table, "'", "''")))}
}

// plainTableProblems are tables that Citus does not commit together with a
// record: it commits the record's node first, and this node's part afterwards.
func (c *catalog) plainTableProblems() []Problem {
	if len(c.Plain) == 0 {
		return nil
	}
	const most = 20
	names := strings.Join(c.Plain[:min(most, len(c.Plain))], ", ")
	if more := len(c.Plain) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return []Problem{problem(ProblemPlainTables,
		fmt.Sprintf("%s is distributed, and these tables lie on this node alone: %s. What an effect writes to one of them can be lost although its record is committed, and no retry repeats it", c.dedup().Name, names),
		"distribute them, make them reference tables (SELECT create_reference_table('…')), add them to Citus's metadata (SELECT citus_add_local_table_to_metadata('…')), "+
			"or, where no effect writes to one, revoke INSERT, UPDATE and DELETE on it from role "+c.Role)}
}

func (t *catalogTable) isTable() bool { return t.Kind == "r" || t.Kind == "p" }

func problem(name, what, fix string) Problem {
	return Problem{Name: name, What: what, Fix: fix}
}

// run is a fix that is one statement. Its names must be quoted already.
func run(format string, args ...any) string {
	return "run: " + fmt.Sprintf(format, args...)
}

func relationKind(kind string) string {
	switch kind {
	case "v":
		return "a view"
	case "m":
		return "a materialized view"
	case "f":
		return "a foreign table"
	default:
		return "a relation of kind " + kind
	}
}
