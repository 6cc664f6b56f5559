package examiner

import (
	"fmt"
	"slices"
	"strings"
)

// problems lists what is wrong, in the order in which it is best repaired.
func (c *catalog) problems() []Problem {
	found := c.serverProblems()
	if nothing := c.noTable(); nothing != nil {
		return append(found, nothing...)
	}
	t, want := c.dedup(), dedupTable()
	found = slices.Concat(found,
		c.pendingProblems(migrated()),
		t.columnProblems(want),
		t.primaryKeyProblems(want),
		t.uniqueProblems(),
		t.constraintProblems(),
		t.dueIndexProblems(),
		t.crashProblems(),
		t.replicationProblems(),
		t.partitionProblems(),
		t.hookProblems(),
		c.accessProblems(),
		c.citusProblems())
	for _, want := range optionalTables() {
		found = append(found, c.optionalProblems(want)...)
	}
	return found
}

// noTable is the problem that there is no tool_dedup to look at, nil if there is one.
func (c *catalog) noTable() []Problem {
	t, want := c.dedup(), dedupTable()
	switch {
	case !c.SchemaFound:
		return []Problem{problem("schema_missing",
			"there is no schema "+c.Schema+" in database "+c.Database,
			"create it, or name the right one in Schema; then run `dedup migrate up`")}
	case t != nil && !t.isTable():
		return []Problem{problem("not_a_table",
			fmt.Sprintf("%s is %s, not a table", t.Name, relationKind(t.Kind)),
			"rename or drop it and run `dedup migrate up`")}
	case t != nil:
		return nil
	}
	what := Missing(c.Schema+"."+want.Name) + " in database " + c.Database
	if slices.Contains(c.Applied, want.madeBy()) {
		return []Problem{problem("table_missing",
			what+", although "+c.versionTable()+" records the migration that makes it",
			"restore it; or run `dedup migrate up --recreate`, which makes one that knows no earlier call, so that each can run again")}
	}
	return []Problem{problem("table_missing", what,
		"run `dedup migrate up`, or apply migrations.FS with the application's goose or the output of `dedup migrate print`")}
}

// optionalProblems are those of a table that only some programs use.
func (c *catalog) optionalProblems(want Table) []Problem {
	t := c.Tables[want.Name]
	if t != nil && t.isTable() {
		found := slices.Concat(
			t.columnProblems(want), t.primaryKeyProblems(want), t.uniqueProblems(), t.constraintProblems(), t.hookProblems())
		for i := range found {
			found[i].Name = want.broken
		}
		return found
	}
	applied := slices.Contains(c.Applied, want.madeBy())
	// A pending migration that makes it is a problem already.
	if t == nil && len(c.Applied) > 0 && !applied {
		return nil
	}
	fix := "run `dedup migrate up`; where the schema is applied by other means than goose, apply " + want.File() + " of `dedup migrate print`"
	if applied {
		fix = "run `dedup migrate up --recreate`"
	}
	if t != nil {
		fix = "rename or drop it; then " + fix
	}
	return []Problem{problem(want.missing,
		Missing(c.Schema+"."+want.Name)+" in database "+c.Database+": "+want.without, fix)}
}

func (c *catalog) serverProblems() []Problem {
	var found []Problem
	if c.Encoding != "UTF8" {
		found = append(found, problem("encoding_not_utf8",
			fmt.Sprintf("database %s is encoded in %s, which cannot hold every key and result as it is", c.Database, c.Encoding),
			"move to a database created with ENCODING 'UTF8'"))
	}
	if c.InRecovery {
		found = append(found, problem("in_recovery",
			"the server is a standby: it cannot write, and does not know the latest records",
			"connect to the primary, for example with target_session_attrs=read-write"))
	}
	// On a standby that is nothing that could be changed.
	if c.ReadOnly && !c.InRecovery {
		found = append(found, problem("read_only",
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
	if !slices.Contains(c.Applied, dedupTable().madeBy()) {
		// Goose would stumble over the table.
		return []Problem{problem("migrations_pending",
			fmt.Sprintf("%s is there, but %s does not record the migration that makes it: the schema is applied by half, or by other means than goose", c.dedup().Name, c.versionTable()),
			"if it is applied by other means, drop "+c.versionTable()+"; otherwise drop or restore both")}
	}
	return []Problem{problem("migrations_pending",
		fmt.Sprintf("the schema is applied by half: %s does not record migration %s", c.versionTable(), strings.Join(pending, ", ")),
		"run `dedup migrate up`, or the application's goose")}
}

// accessProblems are those of the current role.
func (c *catalog) accessProblems() []Problem {
	t := c.dedup()
	var found []Problem
	if !c.SchemaUsage {
		found = append(found, problem("schema_usage_missing",
			fmt.Sprintf("role %s lacks USAGE on schema %s", c.Role, c.Schema),
			run("GRANT USAGE ON SCHEMA %s TO %s", c.Schema, c.Role)))
	}
	if lacks := strings.Join(t.LacksPrivileges, ", "); lacks != "" {
		found = append(found, problem("privileges_missing",
			fmt.Sprintf("role %s lacks %s on %s", c.Role, lacks, t.Name),
			run("GRANT %s ON %s TO %s", lacks, t.Name, c.Role)))
	}
	if t.RowSecurity {
		found = append(found, problem("row_security",
			fmt.Sprintf("row level security of %s applies to role %s: a policy that hides a record makes its call fail instead of replaying it", t.Name, c.Role),
			fmt.Sprintf("let the role bypass it (ALTER ROLE %s BYPASSRLS), or switch it off (ALTER TABLE %s DISABLE ROW LEVEL SECURITY): every statement of the library names its scope", c.Role, t.Name)))
	}
	return found
}

func (t *catalogTable) isTable() bool { return t.Kind == "r" || t.Kind == "p" }

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
