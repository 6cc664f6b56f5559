package examiner

// citusProblems are those of a table that Citus does not commit together with effects.
func citusProblems() []problem {
	// A table without a distribution column whose replication model is not that of reference
	// tables, "t", and that has a colocation group is one of a distributed schema: it lies in one
	// shard, beside the schema's other tables.
	const placed = `(d.partmethod = 'h' AND a.attname = 'scope'
                OR d.partmethod = 'n' AND to_jsonb(d) ->> 'repmodel' <> 't' AND to_jsonb(d) ->> 'colocationid' <> '0')`
	const placement = `LEFT JOIN pg_catalog.pg_dist_partition d ON d.logicalrelid::oid = t.oid
  LEFT JOIN pg_catalog.pg_attribute a
    ON a.attrelid = t.oid AND a.attnum = substring(d.partkey FROM ':varattno ([0-9]+)')::int
 WHERE `
	// Tables of this node alone that the role may write to: those that Citus has no metadata of
	// and that are no shards of it. The library's own ones are left out in every schema, since no
	// promise rests on those rows.
	const beside = `SELECT string_agg(name, ', ' ORDER BY place) FILTER (WHERE place <= 20) || COALESCE(' and ' || NULLIF(max(place) - 20, least(max(place) - 20, 0)) || ' more', '') AS names
             FROM (SELECT format('%I.%I', n.nspname, c.relname) AS name, row_number() OVER (ORDER BY n.nspname, c.relname) AS place
                     FROM pg_catalog.pg_class c
                     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
                      AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
                      AND c.relname <> '` + VersionTable + `' AND c.relname NOT IN (SELECT bare FROM wanted)
                      AND has_schema_privilege(n.oid, 'USAGE')
                      AND (has_any_column_privilege(c.oid, 'INSERT, UPDATE') OR has_table_privilege(c.oid, 'DELETE'))
                      AND NOT EXISTS (SELECT FROM pg_catalog.pg_dist_partition d WHERE d.logicalrelid::oid = c.oid)
                      AND NOT EXISTS (SELECT
                                        FROM pg_catalog.pg_depend e
                                       WHERE e.classid = 'pg_catalog.pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')
                      AND NOT pg_catalog.relation_is_a_known_shard(c.oid)) AS alone`
	return []problem{{
		name: "citus_not_distributed", of: ofDedup, needs: citus,
		columns: `CASE WHEN d.logicalrelid IS NULL THEN 'not distributed on this Citus cluster' ELSE 'on this Citus cluster not distributed by scope' END AS placement,
       replace(t."table", '''', '''''') AS literal`,
		from: placement + `NOT COALESCE(` + placed + `, false)`,
		what: "{table} is {placement}: a record and the effect on a distributed table are then not one atomic transaction",
		fix: "distribute it by scope, beside the application's tables: SELECT create_distributed_table('{literal}', 'scope', colocate_with => …). " +
			`The column that those are distributed by must be text COLLATE "C", as scope is`,
	}, {
		// Citus commits the record's node first, and this node's part afterwards.
		name: "citus_plain_tables", of: ofDedup, needs: citus,
		columns: `beside.names`,
		from:    `CROSS JOIN LATERAL (` + beside + `) AS beside ` + placement + placed + ` AND beside.names IS NOT NULL`,
		what: "{table} is distributed, and these tables lie on this node alone: {names}. " +
			"What an effect writes to one of them can be lost although its record is committed, and no retry repeats it",
		fix: "distribute them, make them reference tables (SELECT create_reference_table('…')), add them to Citus's metadata (SELECT citus_add_local_table_to_metadata('…')), " +
			"or, where no effect writes to one, revoke INSERT, UPDATE and DELETE on it from role {role}",
	}}
}
