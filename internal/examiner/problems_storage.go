package examiner

import "fmt"

// crashProblems are those of a table that does not survive what its effects survive.
func (t *catalogTable) crashProblems() []Problem {
	var found []Problem
	if t.Temporary {
		found = append(found, problem("unlogged",
			t.Name+" is temporary: it ends with its session, and every call of before can run again",
			"make it in another schema, with `dedup migrate up`"))
	}
	for _, name := range t.Unlogged {
		found = append(found, problem("unlogged",
			name+" is UNLOGGED: a server crash empties it, and every call of before can run again",
			run("ALTER TABLE %s SET LOGGED", name)))
	}
	return found
}

func (t *catalogTable) replicationProblems() []Problem {
	var found []Problem
	for _, name := range t.Unreplicated {
		found = append(found, problem("replica_identity",
			fmt.Sprintf("%s is in a publication and its REPLICA IDENTITY is NOTHING: no record can be changed or deleted, so that sweeps, Reset and the calls of forgotten identities fail", name),
			run("ALTER TABLE %s REPLICA IDENTITY DEFAULT", name)))
	}
	return found
}

func (t *catalogTable) partitionProblems() []Problem {
	if t.Kind != "p" {
		return nil
	}
	if t.PartitionKey != distribution {
		return []Problem{problem("partition_key",
			fmt.Sprintf("%s is partitioned by %s; only %s keeps every identity in a partition that is always there", t.Name, t.PartitionKey, distribution),
			"move the rows to a table that is not partitioned, or by "+distribution)}
	}
	const rounding = 1e-9
	if t.PartitionsCover < 1-rounding {
		return []Problem{problem("partition_missing",
			fmt.Sprintf("the partitions of %s take %.0f%% of all scopes; calls of the others are refused", t.Name, 100*t.PartitionsCover),
			"create a partition for every remainder")}
	}
	return nil
}

// hookProblems are what runs in place of a statement on the table, or beside it.
func (t *catalogTable) hookProblems() []Problem {
	var found []Problem
	for _, g := range t.Triggers {
		found = append(found, g.problem())
	}
	for _, r := range t.Rules {
		found = append(found, r.problem())
	}
	return found
}

func (g catalogTrigger) problem() Problem {
	what := "fires when a record is inserted into %[2]s: it can swallow, change or delete the record, or refuse it for reasons of its own"
	if !g.Inserts {
		what = "fires before a record of %[2]s is changed or deleted: it can keep that from happening, without an error"
	}
	return problem("trigger",
		fmt.Sprintf("trigger %[1]s "+what, g.Name, g.Table),
		run("ALTER TABLE %s DISABLE TRIGGER %s", g.Table, g.Name))
}

func (r catalogRule) problem() Problem {
	return problem("rule",
		fmt.Sprintf("rule %s rewrites statements on %s", r.Name, r.Table),
		run("ALTER TABLE %s DISABLE RULE %s", r.Table, r.Name))
}
