package examiner

func serverProblems() []problem {
	return []problem{{
		name:    "encoding_not_utf8",
		columns: `current_setting('server_encoding') AS encoding`,
		from:    `WHERE current_setting('server_encoding') <> 'UTF8'`,
		what:    "database {database} is encoded in {encoding}, which cannot hold every key and result as it is",
		fix:     "move to a database created with ENCODING 'UTF8'",
	}, {
		name: "in_recovery",
		from: `WHERE pg_catalog.pg_is_in_recovery()`,
		what: "the server is a standby: it cannot write, and does not know the latest records",
		fix:  "connect to the primary, for example with target_session_attrs=read-write",
	}, {
		// On a standby it cannot be changed.
		name: "read_only",
		from: `WHERE current_setting('default_transaction_read_only')::boolean AND NOT pg_catalog.pg_is_in_recovery()`,
		what: "default_transaction_read_only is on for role {role}, so that no effect can write",
		fix:  "turn it off where it was set: for the role, the database or the connection (some providers set it when a disk is full)",
	}}
}

// absenceProblems are the problems of a database without tool_dedup, or with half of the schema.
func absenceProblems() []problem {
	const (
		absent      = `FROM wanted w WHERE w.optional IS NULL AND EXISTS (SELECT FROM nsp) AND NOT EXISTS (SELECT FROM relation r WHERE r.bare = w.bare)`
		wasRecorded = `EXISTS (SELECT FROM applied WHERE version = (w.versions ->> 0)::bigint)`
		recorded    = `EXISTS (SELECT FROM applied WHERE version = (t.versions ->> 0)::bigint)`
	)
	return []problem{{
		name: "schema_missing", decisive: "true", last: true,
		from: `WHERE NOT EXISTS (SELECT FROM nsp)`,
		what: "there is no schema {schema} in database {database}",
		fix:  "create it, or name the right one in Schema; then run `dedup migrate up`",
	}, {
		name: "not_a_table", decisive: "true", last: true,
		columns: `r."table", CASE r.relkind WHEN 'v' THEN 'a view' WHEN 'm' THEN 'a materialized view' WHEN 'f' THEN 'a foreign table'
                     ELSE 'a relation of kind ' || r.relkind::text END AS kind`,
		from: `FROM relation r WHERE r.optional IS NULL AND r.relkind NOT IN ('r', 'p')`,
		what: "{table} is {kind}, not a table",
		fix:  "rename or drop it and run `dedup migrate up`",
	}, {
		name: "table_missing", last: true,
		columns: `w."table"`, from: absent + ` AND ` + wasRecorded,
		what: Missing("{table}") + " in database {database}, although {schema}." + VersionTable + " records the migration that makes it",
		fix:  "restore it; or run `dedup migrate up --recreate`, which makes one that knows no earlier call, so that each can run again",
	}, {
		name: "table_missing", decisive: "true", last: true,
		columns: `w."table"`, from: absent,
		what: Missing("{table}") + " in database {database}",
		fix:  "run `dedup migrate up`, or apply migrations.FS with the application's goose or the output of `dedup migrate print`",
	}, {
		// Goose recorded nothing, or only a part was restored: only the operator can tell.
		name: "migrations_pending", of: ofDedup, needs: versions,
		from: `WHERE NOT ` + recorded,
		what: "{table} is there, but {schema}." + VersionTable + " does not record the migration that makes it: the schema is applied by half, or by other means than goose",
		fix:  "if it is applied by other means, drop {schema}." + VersionTable + "; otherwise drop or restore both",
	}, {
		name: "migrations_pending", of: ofDedup, needs: versions,
		columns: `(SELECT string_agg(m.version::text, ', ' ORDER BY m.version)
                     FROM (SELECT DISTINCT json_array_elements_text(w.versions)::bigint AS version FROM wanted w) AS m
                    WHERE m.version NOT IN (SELECT version FROM applied)) AS pending`,
		from: `WHERE ` + recorded + ` AND EXISTS (
           SELECT FROM wanted w, json_array_elements_text(w.versions) AS m (version) WHERE m.version::bigint NOT IN (SELECT version FROM applied))`,
		what: "the schema is applied by half: {schema}." + VersionTable + " does not record migration {pending}",
		fix:  "run `dedup migrate up`, or the application's goose",
	}}
}

// accessProblems are the problems of the current role.
func accessProblems() []problem {
	return []problem{{
		name: "schema_usage_missing", of: ofDedup,
		from: `WHERE NOT (SELECT has_schema_privilege(oid, 'USAGE') FROM nsp)`,
		what: "role {role} lacks USAGE on schema {schema}",
		fix:  "run: GRANT USAGE ON SCHEMA {schema} TO {role}",
	}, {
		// Privileges on all columns are as good as one on the table.
		name: "privileges_missing", of: ofTables,
		columns: `lacks.names AS lacks`,
		from: `CROSS JOIN LATERAL (
           SELECT string_agg(p.name, ', ' ORDER BY p.place) AS names
             FROM unnest(string_to_array(t.privileges, ', ')) WITH ORDINALITY p (name, place)
            WHERE NOT has_table_privilege(t.oid, p.name)
              AND CASE WHEN p.name = 'DELETE' THEN true
                       ELSE (SELECT NOT COALESCE(bool_and(has_column_privilege(t.oid, c.attnum, p.name)), false)
                               FROM columns c
                              WHERE c.oid = t.oid AND c.attnum IS NOT NULL) END) AS lacks
 WHERE lacks.names IS NOT NULL`,
		what: "role {role} lacks {lacks} on {table}",
		fix:  "run: GRANT {lacks} ON {table} TO {role}",
	}, {
		name: "row_security", of: ofDedup,
		from: `WHERE pg_catalog.row_security_active(t.oid)`,
		what: "row level security of {table} applies to role {role}: a policy that hides a record makes its call fail instead of replaying it",
		fix: "let the role bypass it (ALTER ROLE {role} BYPASSRLS), or switch it off (ALTER TABLE {table} DISABLE ROW LEVEL SECURITY): " +
			"every statement of the library names its scope",
	}}
}

// optionalProblems are the missing tables that only some programs use. A pending migration that
// makes one is reported already.
func optionalProblems() []problem {
	const made = `(w.versions ->> 0)::bigint IN (SELECT version FROM applied)`
	return []problem{{
		name: missing,
		columns: `w.optional, w."table", w.without,
       CASE WHEN r.oid IS NULL THEN '' ELSE 'rename or drop it; then ' END ||
       CASE WHEN ` + made + ` THEN 'run ` + "`dedup migrate up --recreate`" + `'
            ELSE 'run ` + "`dedup migrate up`" + `; if the schema is applied by other means than goose, apply the output of ` + "`dedup migrate print`" + ` again' END AS fix`,
		from: `FROM wanted w LEFT JOIN relation r ON r.bare = w.bare
 WHERE w.optional IS NOT NULL AND (r.oid IS NULL OR r.relkind NOT IN ('r', 'p'))
   AND (r.oid IS NOT NULL OR ` + made + ` OR NOT EXISTS (SELECT FROM applied))`,
		what: Missing("{table}") + " in database {database}: {without}",
		fix:  "{fix}",
	}}
}

// citusProblems are the problems of a table that Citus does not commit together with effects.
func citusProblems() []problem {
	// A table belongs to a distributed schema if it has no distribution column, has a colocation
	// group, and its replication model is not "t", the model of reference tables. It lies in one
	// shard, beside the schema's other tables.
	const placed = `(d.partmethod = 'h' AND a.attname = 'scope'
                OR d.partmethod = 'n' AND to_jsonb(d) ->> 'repmodel' <> 't' AND to_jsonb(d) ->> 'colocationid' <> '0')`
	const placement = `LEFT JOIN pg_catalog.pg_dist_partition d ON d.logicalrelid::oid = t.oid
  LEFT JOIN pg_catalog.pg_attribute a
    ON a.attrelid = t.oid AND a.attnum = substring(d.partkey FROM ':varattno ([0-9]+)')::int
 WHERE `
	// Local tables to which the role may write: Citus has no metadata of them, and they are not
	// shards. The library's own tables are left out in every schema, because no guarantee depends
	// on their rows.
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
