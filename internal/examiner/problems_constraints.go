package examiner

// distribution is the partition key that keeps an identity unique.
const distribution = "HASH (scope)"

// partitionedOtherwise is the condition of a table that cannot have the primary key, since that
// must have the columns of the partition key.
const partitionedOtherwise = `t.relkind = 'p' AND pg_catalog.pg_get_partkeydef(t.oid) <> '` + distribution + `'`

func primaryKeyProblems() []problem {
	unlessPartitioned := func(fix string) string {
		return `CASE WHEN ` + partitionedOtherwise + ` THEN 'repair the partition key first' ELSE 'run: ALTER TABLE ' || t."table" || ` + fix + ` END AS fix`
	}
	again := unlessPartitioned(`' DROP CONSTRAINT ' || pk.name || ', ADD ' || t.key_ddl`)
	const has = `JOIN pk ON pk.oid = t.oid `
	return []problem{{
		name: "primary_key_missing", of: ofTables, decisive: "true",
		columns: `t.without, ` + unlessPartitioned(`' ADD ' || t.key_ddl`),
		from:    `WHERE NOT EXISTS (SELECT FROM pk WHERE pk.oid = t.oid)`,
		what:    "{table} has no primary key: {without}",
		fix:     "{fix}",
	}, {
		name: "primary_key_columns", of: ofTables, decisive: "true",
		columns: `t.key, t.other_key, pk.columns, ` + again,
		from:    has + `WHERE pk.columns <> t.key_columns`,
		what:    "the primary key of {table} is made of {columns}, not of {key}: {other_key}",
		fix:     "{fix}",
	}, {
		name: "primary_key_deferrable", of: ofTables, decisive: "true",
		columns: again,
		from:    has + `WHERE pk.columns = t.key_columns AND pk.condeferrable`,
		what:    "the primary key of {table} is DEFERRABLE: a lost race can show too late, and ON CONFLICT refuses it",
		fix:     "{fix}",
	}, {
		name: "primary_key_invalid", of: ofTables, decisive: "true",
		columns: `pk.index`,
		from:    has + `WHERE NOT pk.indisvalid`,
		what:    "the index of the primary key of {table} is not valid: it may not know every record",
		fix:     "run: REINDEX INDEX {index}",
	}}
}

// constraintProblems are constraints of somebody else's that act on records. What is inherited is
// reported where it comes from.
func constraintProblems() []problem {
	const (
		constraint = `quote_ident(k.conname) AS constraint, r.name AS part, pg_catalog.pg_get_constraintdef(k.oid) AS definition`
		// NOT ENFORCED came with PostgreSQL 18.
		enforced = `JOIN rels r ON r.root = t.oid
  JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid
 WHERE k.coninhcount = 0 AND COALESCE(to_jsonb(k) ->> 'conenforced', 'true') = 'true'`
		drop = "run: ALTER TABLE {part} DROP CONSTRAINT {constraint}"
	)
	return []problem{{
		// A record that meets one of them looks like a lost race, but there is no winner to read.
		name: "unique_extra", of: ofTables,
		columns: `r.name AS part,
       COALESCE('constraint ' || quote_ident(k.conname), 'unique index ' || format('%I.%I', r.nspname, x.relname)) AS it,
       COALESCE('ALTER TABLE ' || r.name || ' DROP CONSTRAINT ' || quote_ident(k.conname), 'DROP INDEX ' || format('%I.%I', r.nspname, x.relname)) AS drop`,
		from: `JOIN rels r ON r.root = t.oid
  JOIN pg_catalog.pg_index i ON i.indrelid = r.oid
  JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
  LEFT JOIN pg_catalog.pg_constraint k
    ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')
 WHERE (i.indisunique OR i.indisexclusion) AND NOT (r.oid = t.oid AND i.indisprimary)
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = i.indexrelid)`,
		what: "{it} of {part} can refuse a record whose identity is new; only the primary key may decide",
		fix:  "run: {drop}",
	}, {
		name: "check_constraint", of: ofTables,
		columns: constraint,
		from:    enforced + ` AND k.contype = 'c'`,
		what:    "constraint {constraint} of {part}, {definition}, can refuse what the library writes: a refusal, a claim, or a tombstone, which has no result",
		fix:     drop,
	}, {
		// One that only refuses a record is no problem: its scope is then unknown to the
		// application, and the effect is rolled back as well.
		name: "foreign_key", of: ofTables,
		columns: constraint,
		from:    enforced + ` AND k.contype = 'f' AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))`,
		what:    "constraint {constraint} of {part}, {definition}, deletes or changes records when the row that it refers to goes: their calls run again",
		fix:     drop,
	}}
}

func dueIndexProblems() []problem {
	const (
		create = `CREATE INDEX tool_dedup_due ON {table} (` + DueExpression + `)`
		has    = `JOIN due ON due.oid = t.oid `
		slow   = ": every sweep reads the whole table"
	)
	return []problem{{
		name: "due_index_missing", of: ofDedup, warning: true,
		from: `WHERE NOT EXISTS (SELECT FROM due WHERE due.oid = t.oid)`,
		what: "{table} has no index tool_dedup_due" + slow,
		fix:  "run: " + create,
	}, {
		name: "due_index_other", of: ofDedup, warning: true,
		columns: `due.index`, from: has + `WHERE NOT due.as_wanted`,
		what: "{index} is not the index that the sweep asks for" + slow,
		fix:  "run: DROP INDEX {index}; " + create,
	}, {
		name: "due_index_invalid", of: ofDedup, warning: true,
		columns: `due.index`, from: has + `WHERE due.as_wanted AND NOT due.indisvalid`,
		what: "{index} is not valid" + slow,
		fix:  "run: REINDEX INDEX {index}",
	}}
}
