package examiner

// storageProblems are those of a table that does not survive what its effects survive, or whose
// rows have no place.
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

// hookProblems are what runs in place of a statement on the table, or beside it.
func hookProblems() []problem {
	// Which triggers and rules act depends on a setting that a role can have.
	const enabled = ` IN ('A', CASE current_setting('session_replication_role', true) WHEN 'replica' THEN 'R' ELSE 'O' END)`
	return []problem{{
		// Triggers that fire for an INSERT (4): for each row (1), or for the statement, which is
		// always one on the table itself and none on its partitions. And those that fire before
		// (2) a row is changed (16) or deleted (8). Those of foreign keys are internal and no
		// user's. A trigger of updates can swallow the record where a claim is completed.
		name: "trigger", of: ofTables, decisive: `(g.tgtype & 3) = 3 AND ((g.tgtype & 4) = 4 OR $3::boolean AND (g.tgtype & 16) = 16)`,
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
		// One for an INSERT acts where records are written: on the table itself.
		name: "rule", of: ofTables, decisive: `w.ev_type = '3' AND r.oid = t.oid`,
		columns: `quote_ident(w.rulename) AS rule, r.name AS part`,
		from: `JOIN rels r ON r.root = t.oid
  JOIN pg_catalog.pg_rewrite w ON w.ev_class = r.oid
 WHERE w.rulename <> '_RETURN' AND w.ev_enabled` + enabled,
		what: "rule {rule} rewrites statements on {part}",
		fix:  "run: ALTER TABLE {part} DISABLE RULE {rule}",
	}}
}
