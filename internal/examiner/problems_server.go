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
		// On a standby that is nothing that could be changed.
		name: "read_only",
		from: `WHERE current_setting('default_transaction_read_only')::boolean AND NOT pg_catalog.pg_is_in_recovery()`,
		what: "default_transaction_read_only is on for role {role}, so that no effect can write",
		fix:  "turn it off where it was set: for the role, the database or the connection (some providers set it when a disk is full)",
	}}
}

// absenceProblems are those of a database without a table tool_dedup, or with half of the schema.
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
		// Goose would stumble over the table.
		name: "migrations_pending", of: ofDedup, needs: versions,
		from: `WHERE NOT ` + recorded,
		what: "{table} is there, but {schema}." + VersionTable + " does not record the migration that makes it: the schema is applied by half, or by other means than goose",
		fix:  "if it is applied by other means, drop {schema}." + VersionTable + "; otherwise drop or restore both",
	}, {
		name: "migrations_pending", of: ofDedup, needs: versions,
		columns: `(SELECT string_agg(m.version, ', ' ORDER BY m.version::bigint)
                     FROM wanted w, json_array_elements_text(w.versions) AS m (version)
                    WHERE m.version::bigint NOT IN (SELECT version FROM applied)) AS pending`,
		from: `WHERE ` + recorded + ` AND EXISTS (
           SELECT FROM wanted w, json_array_elements_text(w.versions) AS m (version) WHERE m.version::bigint NOT IN (SELECT version FROM applied))`,
		what: "the schema is applied by half: {schema}." + VersionTable + " does not record migration {pending}",
		fix:  "run `dedup migrate up`, or the application's goose",
	}}
}

// accessProblems are those of the current role.
func accessProblems() []problem {
	return []problem{{
		name: "schema_usage_missing", of: ofDedup,
		from: `WHERE NOT (SELECT has_schema_privilege(oid, 'USAGE') FROM nsp)`,
		what: "role {role} lacks USAGE on schema {schema}",
		fix:  "run: GRANT USAGE ON SCHEMA {schema} TO {role}",
	}, {
		// Privileges on all the columns do as well as one on the table.
		name: "privileges_missing", of: ofDedup,
		columns: `lacks.names AS lacks`,
		from: `CROSS JOIN LATERAL (
           SELECT string_agg(p.name, ', ' ORDER BY p.place) AS names
             FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY p (name, place)
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

// optionalProblems are the tables that are missing of those that only some programs use. A
// pending migration that makes one is a problem already.
func optionalProblems() []problem {
	const made = `(w.versions ->> 0)::bigint IN (SELECT version FROM applied)`
	return []problem{{
		name: missing,
		columns: `w.optional, w."table", w.without,
       CASE WHEN r.oid IS NULL THEN '' ELSE 'rename or drop it; then ' END ||
       CASE WHEN ` + made + ` THEN 'run ` + "`dedup migrate up --recreate`" + `'
            ELSE 'run ` + "`dedup migrate up`" + `; where the schema is applied by other means than goose, apply ' || w.file || ' of ` + "`dedup migrate print`" + `' END AS fix`,
		from: `FROM wanted w LEFT JOIN relation r ON r.bare = w.bare
 WHERE w.optional IS NOT NULL AND (r.oid IS NULL OR r.relkind NOT IN ('r', 'p'))
   AND (r.oid IS NOT NULL OR ` + made + ` OR NOT EXISTS (SELECT FROM applied))`,
		what: Missing("{table}") + " in database {database}: {without}",
		fix:  "{fix}",
	}}
}
