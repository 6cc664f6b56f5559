package examiner

func columnProblems() []problem {
	const retype = `run: ALTER TABLE {table} ALTER COLUMN {column} TYPE {ddl}`
	const each = `JOIN columns c ON c.oid = t.oid `
	return []problem{{
		name: "column_missing", of: ofTables,
		columns: `c."column", c.ddl || CASE WHEN c.nullable THEN '' ELSE ' NOT NULL' END AS ddl`,
		from:    each + `WHERE c.attnum IS NULL`,
		what:    "{table} has no column {column}",
		fix:     "run: ALTER TABLE {table} ADD COLUMN {column} {ddl}",
	}, {
		name: "column_type", of: ofTables,
		columns: `c."column", c.ddl, c.type, c.wanted`,
		from:    each + `WHERE c.type <> c.wanted`,
		what:    "column {column} of {table} is {type}, not {wanted}",
		fix:     retype,
	}, {
		name: "column_collation", of: ofTables,
		columns: `c."column", c.ddl, c.collation`,
		from:    each + `WHERE c.type = c.wanted AND c.ordered AND c.collation <> '"C"'`,
		what:    `column {column} of {table} is COLLATE {collation}, not "C": a change of the locale data can put the index out of order and let a twin in`,
		fix:     retype,
	}, {
		name: "column_nullable", of: ofTables,
		columns: `c."column"`,
		from:    each + `WHERE NOT c.nullable AND NOT c.attnotnull`,
		what:    "column {column} of {table} may be NULL",
		fix:     "run: ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL",
	}, {
		name: "column_not_nullable", of: ofTables,
		columns: `c."column"`,
		from:    each + `WHERE c.nullable AND c.attnotnull`,
		what:    "column {column} of {table} is NOT NULL, but a record without one needs that",
		fix:     "run: ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL",
	}, {
		name: "column_extra", of: ofTables,
		columns: `format('%I', a.attname) AS "column"`,
		from: `JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
   AND NOT EXISTS (SELECT FROM columns c WHERE c.oid = t.oid AND c.attnum = a.attnum)`,
		what: "column {column} of {table} is not the library's and NOT NULL without a default: no record can be inserted",
		fix:  "run: ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL",
	}}
}

// distribution is the partition key that keeps an identity unique.
const distribution = "HASH (scope)"

// partitionedOtherwise is the condition of a table that cannot have the primary key, which must
// contain the columns of the partition key.
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

// constraintProblems are foreign constraints that act on records. An inherited one is reported at
// its origin.
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
		// A record that violates one looks like a lost race, but there is no winning row to read.
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
		// A foreign key that only refuses a record is harmless: the application does not know the
		// scope, and the effect is rolled back as well.
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

// storageProblems are the problems of a table that is less durable than its effects, or that has no
// place for some rows.
func storageProblems() []problem {
	return []problem{{
		name: "unlogged", of: ofDedup, decisive: "true",
		from: `WHERE t.relpersistence = 't'`,
		what: "{table} is temporary: it ends with its session, and every call of before can run again",
		fix:  "make it in another schema, with `dedup migrate up`",
	}, {
		name: "unlogged", of: ofDedup, decisive: "true",
		columns: `r.name AS part`,
		from:    `JOIN rels r ON r.root = t.oid WHERE r.relpersistence = 'u' AND r.relkind <> 'p'`,
		what:    "{part} is UNLOGGED: a server crash empties it, and every call of before can run again",
		fix:     "run: ALTER TABLE {part} SET LOGGED",
	}, {
		// A publication of a partitioned table holds for its partitions.
		name: "replica_identity", of: ofDedup,
		columns: `r.name AS part`,
		from: `JOIN rels r ON r.root = t.oid
 WHERE r.relkind = 'r' AND r.relreplident = 'n'
   AND EXISTS (
       SELECT
         FROM pg_catalog.pg_publication p
         JOIN pg_catalog.pg_publication_tables pt ON pt.pubname = p.pubname
         JOIN rels a ON a.root = r.root AND a.nspname = pt.schemaname AND a.relname = pt.tablename
        WHERE (p.pubupdate OR p.pubdelete)
          AND (a.oid = r.oid OR a.oid IN (SELECT pg_catalog.pg_partition_ancestors(r.oid))))`,
		what: "{part} is in a publication and its REPLICA IDENTITY is NOTHING: no record can be changed or deleted, so that sweeps, Reset and the calls of forgotten identities fail",
		fix:  "run: ALTER TABLE {part} REPLICA IDENTITY DEFAULT",
	}, {
		name: "partition_key", of: ofDedup,
		columns: `pg_catalog.pg_get_partkeydef(t.oid) AS key`,
		from:    `WHERE ` + partitionedOtherwise,
		what:    "{table} is partitioned by {key}; only " + distribution + " keeps every identity in a partition that is always there",
		fix:     "move the rows to a table that is not partitioned, or by " + distribution,
	}, {
		name: "partition_missing", of: ofDedup,
		columns: `round((100 * cover.share)::numeric)::text AS share`,
		from: `CROSS JOIN LATERAL (
           SELECT COALESCE(sum(1 / substring(pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM 'modulus ([0-9]+)')::float8), 0) AS share
             FROM pg_catalog.pg_inherits h
             JOIN pg_catalog.pg_class c ON c.oid = h.inhrelid
            WHERE h.inhparent = t.oid) AS cover
 WHERE t.relkind = 'p' AND NOT (` + partitionedOtherwise + `) AND cover.share < 1 - 1e-9`, // the sum is rounded
		what: "the partitions of {table} take {share}% of all scopes; calls of the others are refused",
		fix:  "create a partition for every remainder",
	}}
}

// hookProblems are triggers and rules that replace a statement on the table, or add to it.
func hookProblems() []problem {
	// Which triggers and rules act depends on a setting that a role can have.
	const enabled = ` IN ('A', CASE current_setting('session_replication_role', true) WHEN 'replica' THEN 'R' ELSE 'O' END)`
	return []problem{{
		// Triggers that fire for an INSERT (4): for each row (1), or for the statement, which
		// always names the table itself and never a partition. Also triggers that fire before (2) a
		// row is changed (16) or deleted (8). Internal ones belong to foreign keys. A trigger of
		// updates can swallow the record if it completes a claim.
		name: "trigger", of: ofTables, decisive: `(g.tgtype & 3) = 3 AND ((g.tgtype & 4) = 4 OR (` + engineSQL + `) <> 1 AND (g.tgtype & 16) = 16)`,
		columns: `quote_ident(g.tgname) AS trigger, r.name AS part,
       CASE WHEN (g.tgtype & 4) = 4 THEN 'fires when a record is inserted into ' || r.name || ': it can swallow, change or delete the record, or refuse it for reasons of its own'
            ELSE 'fires before a record of ' || r.name || ' is changed or deleted: it can keep that from happening, without an error' END AS fires`,
		from: `JOIN rels r ON r.root = t.oid
  JOIN pg_catalog.pg_trigger g ON g.tgrelid = r.oid
 WHERE NOT g.tgisinternal AND COALESCE(to_jsonb(g) ->> 'tgparentid', '0') = '0' AND g.tgenabled` + enabled + `
   AND CASE WHEN (g.tgtype & 4) = 4 THEN (g.tgtype & 1) = 1 OR g.tgrelid = t.oid
            ELSE (g.tgtype & 3) = 3 AND (g.tgtype & 24) <> 0 END`,
		what: "trigger {trigger} {fires}",
		fix:  "run: ALTER TABLE {part} DISABLE TRIGGER {trigger}",
	}, {
		// A rule for INSERT acts on the table itself, into which records are written.
		name: "rule", of: ofTables, decisive: `w.ev_type = '3' AND r.oid = t.oid`,
		columns: `quote_ident(w.rulename) AS rule, r.name AS part`,
		from: `JOIN rels r ON r.root = t.oid
  JOIN pg_catalog.pg_rewrite w ON w.ev_class = r.oid
 WHERE w.rulename <> '_RETURN' AND w.ev_enabled` + enabled,
		what: "rule {rule} rewrites statements on {part}",
		fix:  "run: ALTER TABLE {part} DISABLE RULE {rule}",
	}}
}
