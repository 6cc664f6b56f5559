package examiner

// What is asked of the server's catalogues, as one JSON document. Everything that
// can sit on a partition, and act there on a record, is looked for on the partitions
// too. What a partition has inherited is reported for the table only. In the parts t
// is the table in question, and r it or a partition.
const (
	// decisiveSQL reads of a catalog what is asked before the first effect. $1 is the
	// schema, $2 the names of the tables.
	//
	// It runs in the transactions of callers as well: it takes no lock on what it looks
	// at, and calls no function that can fail.
	decisiveSQL = relationsSQL + `
SELECT json_build_object(` + serverDecisiveSQL + `,
    'tables', (
        SELECT json_object_agg(t.relname, json_build_object(` + tableDecisiveSQL + `))
          FROM target t))`

	// catalogSQL reads all of a catalog. $3 are the names of tool_dedup's columns, $4 is
	// that of goose's version table.
	catalogSQL = relationsSQL + `
SELECT json_build_object(` + serverDecisiveSQL + `,` + serverSQL + `,
    'tables', (
        SELECT json_object_agg(t.relname, json_build_object(` + tableDecisiveSQL + `,` + tableSQL + `))
          FROM target t))`
)

// relationsSQL finds the tables and their partitions.
const relationsSQL = `
WITH RECURSIVE nsp AS (
    SELECT oid
      FROM pg_catalog.pg_namespace
     WHERE nspname = $1::text
), target AS (
    SELECT c.oid, c.relname, c.relkind, c.relpersistence
      FROM pg_catalog.pg_class c
      JOIN nsp ON nsp.oid = c.relnamespace
     WHERE c.relname = ANY ($2::text[])
), tree AS (
    SELECT oid AS root, oid FROM target
    UNION ALL
    SELECT tree.root, h.inhrelid
      FROM tree
      JOIN pg_catalog.pg_inherits h ON h.inhparent = tree.oid
), rels AS (
    SELECT tree.root, c.oid, c.relkind, c.relpersistence, c.relreplident, n.nspname, c.relname, format('%I.%I', n.nspname, c.relname) AS name
      FROM tree
      JOIN pg_catalog.pg_class c ON c.oid = tree.oid
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = tree.root OR c.relispartition
)`

const serverDecisiveSQL = `
    'database', quote_ident(current_database()),
    'schema', quote_ident($1::text),
    'schema_found', EXISTS (SELECT FROM nsp),
    'engine', ` + engineSQL + `,
    'now', to_char(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

const tableDecisiveSQL = `
            'name', format('%I.%I', $1::text, t.relname),
            'kind', t.relkind,
            'temporary', t.relpersistence = 't',
            'unlogged', (
                SELECT json_agg(r.name ORDER BY r.name)
                  FROM rels r
                 WHERE r.root = t.oid AND r.relpersistence = 'u' AND r.relkind <> 'p'),
            'primary_key', (` + primaryKeySQL + `),
            'triggers', (` + triggersSQL + `),
            'rules', (` + rulesSQL + `)`

const serverSQL = `
    'role', quote_ident(current_user),
    'encoding', current_setting('server_encoding'),
    'in_recovery', pg_catalog.pg_is_in_recovery(),
    'read_only', current_setting('default_transaction_read_only')::boolean,
    'schema_usage', COALESCE((SELECT has_schema_privilege(oid, 'USAGE') FROM nsp), false),
    'has_versions', EXISTS (
        SELECT
          FROM pg_catalog.pg_class v
          JOIN nsp ON nsp.oid = v.relnamespace
         WHERE v.relname = $4::text AND v.relkind = 'r' AND has_schema_privilege(nsp.oid, 'USAGE') AND has_table_privilege(v.oid, 'SELECT')
           AND 2 = (SELECT count(*)
                      FROM pg_catalog.pg_attribute a
                     WHERE a.attrelid = v.oid AND a.attname IN ('version_id', 'is_applied') AND NOT a.attisdropped)),
    'has_citus', EXISTS (
        SELECT
          FROM pg_catalog.pg_class d
         WHERE d.relnamespace = 'pg_catalog'::regnamespace AND d.relname = 'pg_dist_partition'
           AND has_table_privilege(d.oid, 'SELECT'))`

const tableSQL = `
            'oid', t.oid::bigint,
            'partition_key', CASE WHEN t.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(t.oid) ELSE '' END,
            'partitions_cover', (` + partitionsCoverSQL + `),
            'unreplicated', (` + unreplicatedSQL + `),
            'row_security', CASE WHEN t.relkind IN ('r', 'p') THEN pg_catalog.row_security_active(t.oid) ELSE false END,
            'lacks_privileges', (` + lacksPrivilegesSQL + `),
            'columns', (` + columnsSQL + `),
            'unique_extra', (` + uniqueExtraSQL + `),
            'due_index', (` + dueIndexSQL + `),
            'checks', (` + checksSQL + `),
            'foreign_keys', (` + foreignKeysSQL + `)`

// primaryKeySQL reads the primary key, whose index has its name.
const primaryKeySQL = `
    SELECT json_build_object(
               'name', quote_ident(k.conname),
               'index', format('%I.%I', $1::text, k.conname),
               'columns', (SELECT json_agg(a.attname ORDER BY a.attname COLLATE "C")
                             FROM pg_catalog.pg_attribute a
                            WHERE a.attrelid = t.oid AND a.attnum = ANY (k.conkey)),
               'deferrable', k.condeferrable,
               'valid', i.indisvalid)
      FROM pg_catalog.pg_constraint k
      JOIN pg_catalog.pg_index i ON i.indexrelid = k.conindid
     WHERE k.conrelid = t.oid AND k.contype = 'p'`

// rulesSQL lists the rules. One for an INSERT acts where records are written: on the
// table itself.
const rulesSQL = `
    SELECT json_agg(json_build_object('name', quote_ident(w.rulename), 'table', r.name,
                                      'inserts', w.ev_type = '3' AND r.oid = t.oid) ORDER BY w.oid)
      FROM rels r
      JOIN pg_catalog.pg_rewrite w ON w.ev_class = r.oid
     WHERE r.root = t.oid AND w.ev_enabled IN (` + hooksEnabledSQL + `) AND w.rulename <> '_RETURN'`

const columnsSQL = `
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
     WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped`

// uniqueExtraSQL lists what is unique beside the primary key.
const uniqueExtraSQL = `
    SELECT json_agg(json_build_object(
               'table', r.name,
               'index', format('%I.%I', r.nspname, x.relname),
               'constraint', quote_ident(k.conname)) ORDER BY i.indexrelid)
      FROM rels r
      JOIN pg_catalog.pg_index i ON i.indrelid = r.oid
      JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
      LEFT JOIN pg_catalog.pg_constraint k
        ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')
     WHERE r.root = t.oid AND (i.indisunique OR i.indisexclusion)
       AND NOT (r.oid = t.oid AND i.indisprimary)
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = i.indexrelid)`

const dueIndexSQL = `
    SELECT json_build_object(
               'name', format('%I.%I', $1::text, x.relname),
               'plain', m.amname = 'btree' AND i.indnkeyatts = 1 AND i.indpred IS NULL,
               'expression', COALESCE(pg_catalog.pg_get_expr(i.indexprs, i.indrelid), ''),
               'valid', i.indisvalid)
      FROM pg_catalog.pg_index i
      JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
      JOIN pg_catalog.pg_am m ON m.oid = x.relam
     WHERE i.indrelid = t.oid AND x.relname = 'tool_dedup_due'`

// partitionsCoverSQL is the share of all scopes that the hash partitions of t
// take: a table that is not partitioned takes all.
const partitionsCoverSQL = `
    SELECT CASE WHEN t.relkind <> 'p' THEN 1
                ELSE COALESCE(sum(1 / substring(pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM 'modulus ([0-9]+)')::float8), 0) END
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
                       WHERE a.attrelid = t.oid AND a.attname = ANY ($3::text[]) AND NOT a.attisdropped) END`

// hooksEnabledSQL are the states in which triggers and rules act in this session:
// which of them do depends on a setting that a role can have.
const hooksEnabledSQL = `'A', CASE current_setting('session_replication_role', true) WHEN 'replica' THEN 'R' ELSE 'O' END`

// triggersSQL lists the triggers that fire for an INSERT (4): for each row (1), or
// for the statement, which is always one on the table itself and none on its
// partitions. And those that fire before (2) a row is changed (16) or deleted (8),
// which can keep that from happening. Those of foreign keys are internal and no
// user's.
const triggersSQL = `
    SELECT json_agg(json_build_object('name', quote_ident(g.tgname), 'table', r.name, 'before', (g.tgtype & 3) = 3,
                                      'inserts', (g.tgtype & 4) = 4, 'updates', (g.tgtype & 16) = 16) ORDER BY g.oid)
      FROM rels r
      JOIN pg_catalog.pg_trigger g ON g.tgrelid = r.oid
     WHERE r.root = t.oid
       AND NOT g.tgisinternal AND COALESCE(to_jsonb(g) ->> 'tgparentid', '0') = '0'
       AND g.tgenabled IN (` + hooksEnabledSQL + `)
       AND CASE WHEN (g.tgtype & 4) = 4 THEN (g.tgtype & 1) = 1 OR g.tgrelid = t.oid
                ELSE (g.tgtype & 3) = 3 AND (g.tgtype & 24) <> 0 END`

// constraintsSQL lists constraints with their definition. What is inherited is
// reported where it comes from. NOT ENFORCED came with PostgreSQL 18.
const constraintsSQL = `
    SELECT json_agg(json_build_object('name', quote_ident(k.conname), 'table', r.name,
                                      'definition', pg_catalog.pg_get_constraintdef(k.oid)) ORDER BY k.oid)
      FROM rels r
      JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid
     WHERE r.root = t.oid
       AND k.coninhcount = 0 AND COALESCE(to_jsonb(k) ->> 'conenforced', 'true') = 'true'`

const checksSQL = constraintsSQL + ` AND k.contype = 'c'`

// foreignKeysSQL lists the foreign keys that delete or change records: CASCADE,
// SET NULL and SET DEFAULT. Others only refuse a record.
const foreignKeysSQL = constraintsSQL + ` AND k.contype = 'f' AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))`

// unreplicatedSQL lists the tables whose rows can neither be changed nor deleted:
// a publication wants to replicate that, and they have no replica identity. A
// publication of a partitioned table holds for its partitions.
const unreplicatedSQL = `
    SELECT json_agg(r.name ORDER BY r.name)
      FROM rels r
     WHERE r.root = t.oid AND r.relkind = 'r' AND r.relreplident = 'n'
       AND EXISTS (
           SELECT
             FROM pg_catalog.pg_publication p
             JOIN pg_catalog.pg_publication_tables pt ON pt.pubname = p.pubname
             JOIN rels a ON a.root = r.root AND a.nspname = pt.schemaname AND a.relname = pt.tablename
            WHERE (p.pubupdate OR p.pubdelete)
              AND (a.oid = r.oid OR a.oid IN (SELECT pg_catalog.pg_partition_ancestors(r.oid))))`

// versionsSQL lists the migrations that goose has recorded as applied in the
// table %s.
const versionsSQL = `(
    SELECT COALESCE(array_agg(version_id::bigint), '{}')
      FROM %s
     WHERE is_applied)`

// besideSQL lists the tables of the coordinator alone that the role may
// write to: those that Citus has no metadata of and that are no shards of it. The
// library's own ones are left out in every schema, since no promise rests on those rows: $2
// are their names.
const besideSQL = `(
    SELECT array_agg(format('%I.%I', n.nspname, c.relname) ORDER BY n.nspname, c.relname)
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
       AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
       AND c.relname <> ALL ($2::text[])
       AND has_schema_privilege(n.oid, 'USAGE')
       AND (has_any_column_privilege(c.oid, 'INSERT, UPDATE') OR has_table_privilege(c.oid, 'DELETE'))
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_dist_partition d WHERE d.logicalrelid::oid = c.oid)
       AND NOT EXISTS (SELECT
                         FROM pg_catalog.pg_depend e
                        WHERE e.classid = 'pg_catalog.pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')
       AND NOT pg_catalog.relation_is_a_known_shard(c.oid))`

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
        ON a.attrelid = d.logicalrelid::oid AND a.attnum = substring(d.partkey FROM ':varattno ([0-9]+)')::int
     WHERE d.logicalrelid::oid = $1::bigint)`
