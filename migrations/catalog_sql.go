package migrations

// catalogSQL reads a catalog as one JSON document. $1 is the schema, $2 the
// names of the columns, $3 the name of goose's version table.
//
// Everything that can sit on a partition, and act there on a record, is looked
// for on the partitions too. What a partition has inherited is reported for the
// table only.
const catalogSQL = `
WITH nsp AS (
    SELECT oid, has_schema_privilege(oid, 'USAGE') AS usage
      FROM pg_catalog.pg_namespace
     WHERE nspname = $1::text
), target AS (
    SELECT c.oid, c.relkind, c.relkind IN ('r', 'p') AS is_table
      FROM pg_catalog.pg_class c
      JOIN nsp ON nsp.oid = c.relnamespace
     WHERE c.relname = 'tool_dedup'
), rels AS (
    SELECT c.oid, c.relkind, c.relpersistence, format('%I.%I', n.nspname, c.relname) AS name
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid IN (SELECT oid FROM target
                     UNION
                     SELECT tree.relid FROM target, pg_catalog.pg_partition_tree(target.oid) tree)
)
SELECT json_build_object(
    'role', quote_ident(current_user),
    'database', quote_ident(current_database()),
    'encoding', current_setting('server_encoding'),
    'in_recovery', pg_catalog.pg_is_in_recovery(),
    'read_only', current_setting('default_transaction_read_only')::boolean,
    'schema', quote_ident($1::text),
    'schema_found', EXISTS (SELECT FROM nsp),
    'schema_usage', COALESCE((SELECT usage FROM nsp), false),
    'has_versions', EXISTS (
        SELECT
          FROM pg_catalog.pg_class v
          JOIN nsp ON nsp.oid = v.relnamespace
         WHERE v.relname = $3::text AND v.relkind = 'r' AND nsp.usage AND has_table_privilege(v.oid, 'SELECT')
           AND 2 = (SELECT count(*)
                      FROM pg_catalog.pg_attribute a
                     WHERE a.attrelid = v.oid AND a.attname IN ('version_id', 'is_applied') AND NOT a.attisdropped)),
    'has_citus', EXISTS (
        SELECT
          FROM pg_catalog.pg_class d
         WHERE d.relnamespace = 'pg_catalog'::regnamespace AND d.relname = 'pg_dist_partition'
           AND has_table_privilege(d.oid, 'SELECT')),
    'table', (
        SELECT json_build_object(
            'oid', t.oid::bigint,
            'name', format('%I.%I', $1::text, 'tool_dedup'),
            'kind', t.relkind,
            'partition_key', CASE WHEN t.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(t.oid) ELSE '' END,
            'partitions_cover', (` + partitionsCoverSQL + `),
            'unlogged', (
                SELECT json_agg(r.name ORDER BY r.name)
                  FROM rels r
                 WHERE r.relpersistence = 'u' AND r.relkind <> 'p'),
            'row_security', CASE WHEN t.is_table THEN pg_catalog.row_security_active(t.oid) ELSE false END,
            'lacks_privileges', (` + lacksPrivilegesSQL + `),
            'columns', (
                SELECT json_agg(json_build_object(
                           'name', a.attname,
                           'type', pg_catalog.format_type(a.atttypid, a.atttypmod),
                           'collation', COALESCE((SELECT CASE WHEN l.collnamespace = 'pg_catalog'::regnamespace THEN format('%I', l.collname)
                                                         ELSE format('%s.%I', l.collnamespace::regnamespace, l.collname) END
                                                    FROM pg_catalog.pg_collation l
                                                   WHERE l.oid = a.attcollation), ''),
                           'not_null', a.attnotnull,
                           'filled', a.atthasdef OR a.attidentity <> '') ORDER BY a.attnum)
                  FROM pg_catalog.pg_attribute a
                 WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped),
            'primary_key', (
                SELECT json_build_object(
                           'name', quote_ident(k.conname),
                           'index', (` + indexNameSQL + `),
                           'columns', (SELECT json_agg(a.attname ORDER BY a.attname COLLATE "C")
                                         FROM pg_catalog.pg_attribute a
                                        WHERE a.attrelid = t.oid AND a.attnum = ANY (k.conkey)),
                           'deferrable', k.condeferrable,
                           'valid', i.indisvalid AND i.indisready AND i.indislive)
                  FROM pg_catalog.pg_constraint k
                  JOIN pg_catalog.pg_index i ON i.indexrelid = k.conindid
                 WHERE k.conrelid = t.oid AND k.contype = 'p'),
            'unique_extra', (
                SELECT json_agg(json_build_object(
                           'table', r.name,
                           'index', (` + indexNameSQL + `),
                           'constraint', quote_ident(k.conname)) ORDER BY i.indexrelid)
                  FROM rels r
                  JOIN pg_catalog.pg_index i ON i.indrelid = r.oid
                  LEFT JOIN pg_catalog.pg_constraint k
                    ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')
                 WHERE (i.indisunique OR i.indisexclusion)
                   AND NOT (r.oid = t.oid AND i.indisprimary)
                   AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = i.indexrelid)),
            'due_index', (
                SELECT json_build_object(
                           'name', (` + indexNameSQL + `),
                           'plain', m.amname = 'btree' AND i.indnkeyatts = 1 AND i.indpred IS NULL,
                           'expression', COALESCE(pg_catalog.pg_get_expr(i.indexprs, i.indrelid), ''),
                           'valid', i.indisvalid AND i.indisready AND i.indislive)
                  FROM pg_catalog.pg_index i
                  JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
                  JOIN pg_catalog.pg_am m ON m.oid = x.relam
                 WHERE i.indrelid = t.oid AND x.relname = 'tool_dedup_due'),
            'triggers', (` + triggersSQL + `),
            'rules', (
                SELECT json_agg(json_build_object('name', quote_ident(w.rulename), 'table', r.name) ORDER BY w.oid)
                  FROM rels r
                  JOIN pg_catalog.pg_rewrite w ON w.ev_class = r.oid
                 WHERE w.ev_enabled IN (` + hooksEnabledSQL + `) AND w.rulename <> '_RETURN'))
          FROM target t))`

// partitionsCoverSQL is the share of all scopes that the hash partitions of t
// take: a table that is not partitioned takes all.
const partitionsCoverSQL = `
    SELECT CASE WHEN t.relkind <> 'p' THEN 1
                ELSE COALESCE(sum(1 / substring(pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM 'modulus (\d+)')::float8), 0) END
      FROM pg_catalog.pg_inherits h
      JOIN pg_catalog.pg_class c ON c.oid = h.inhrelid
     WHERE h.inhparent = t.oid`

// lacksPrivilegesSQL lists what the role may not do with t. Privileges on all
// the columns do as well as one on the table.
const lacksPrivilegesSQL = `
    SELECT json_agg(p.name ORDER BY p.place)
      FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY p (name, place)
     WHERE NOT has_table_privilege(t.oid, p.name)
       AND CASE WHEN p.name = 'DELETE' THEN true
                ELSE (SELECT NOT COALESCE(bool_and(has_column_privilege(t.oid, a.attnum, p.name)), false)
                        FROM pg_catalog.pg_attribute a
                       WHERE a.attrelid = t.oid AND a.attname = ANY ($2::text[]) AND NOT a.attisdropped) END`

// indexNameSQL is the qualified name of the index i.
const indexNameSQL = `
    SELECT format('%I.%I', n.nspname, c.relname)
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = i.indexrelid`

// hooksEnabledSQL are the states in which triggers and rules act in this session:
// which of them do depends on a setting that a role can have.
const hooksEnabledSQL = `'A', CASE current_setting('session_replication_role') WHEN 'replica' THEN 'R' ELSE 'O' END`

// triggersSQL lists the triggers that fire for an INSERT (4): for each row (1), or
// for the statement, which is always one on the table itself and none on its
// partitions. Those of foreign keys are internal and no user's.
const triggersSQL = `
    SELECT json_agg(json_build_object('name', quote_ident(g.tgname), 'table', r.name) ORDER BY g.oid)
      FROM rels r
      JOIN pg_catalog.pg_trigger g ON g.tgrelid = r.oid
     WHERE NOT g.tgisinternal AND g.tgparentid = 0
       AND g.tgenabled IN (` + hooksEnabledSQL + `) AND (g.tgtype & 4) = 4
       AND ((g.tgtype & 1) = 1 OR g.tgrelid = (SELECT oid FROM target))`

// versionsSQL lists the migrations that goose has recorded as applied in the
// table %s.
const versionsSQL = `(
    SELECT COALESCE(array_agg(version_id::bigint), '{}')
      FROM %s
     WHERE is_applied)`

// citusSQL reads how Citus distributes the table with OID $1. A table without a
// distribution column whose replication model is not that of reference tables,
// "t", and that has a colocation group is one of a distributed schema: it lies
// in one shard, beside the schema's other tables.
const citusSQL = `(
    SELECT json_build_object(
               'column', CASE WHEN d.partmethod = 'h' THEN COALESCE(a.attname, '') ELSE '' END,
               'single_shard', d.partmethod = 'n' AND to_jsonb(d) ->> 'repmodel' <> 't' AND to_jsonb(d) ->> 'colocationid' <> '0')
      FROM pg_catalog.pg_dist_partition d
      LEFT JOIN pg_catalog.pg_attribute a
        ON a.attrelid = d.logicalrelid::oid AND a.attnum = substring(d.partkey FROM ':varattno (\d+)')::int
     WHERE d.logicalrelid::oid = $1::bigint)`
