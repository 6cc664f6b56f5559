package examiner

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// query finds several problems at once.
type query struct {
	problems []problem
	with     string // the common table expressions
	decisive bool
}

// decisiveQuery finds the decisive problems. It also runs in callers' transactions, so it locks
// none of the tables and calls no function that can fail.
func decisiveQuery() *query {
	q := &query{with: withTables, decisive: true}
	for _, p := range problems() {
		if p.decisive != "" {
			q.problems = append(q.problems, p)
		}
	}
	return q
}

// wholeQuery finds all problems whose needs are met.
func wholeQuery(schema string, there map[need]bool) *query {
	q := &query{with: withTables + withColumns}
	if there[versions] {
		q.with += `, applied AS (SELECT version_id::bigint AS version FROM ` + pgx.Identifier{schema, VersionTable}.Sanitize() + ` WHERE is_applied)`
	} else {
		q.with += `, applied AS (SELECT 0::bigint AS version WHERE false)`
	}
	for _, p := range problems() {
		if p.needs == nothing || there[p.needs] {
			q.problems = append(q.problems, p)
		}
	}
	return q
}

// sql returns the query as one statement that returns one JSON document.
func (q *query) sql() string {
	var found []string
	for _, p := range q.problems {
		found = append(found, "\n    (SELECT json_agg(p) FROM ("+p.sql(q.decisive)+") AS p)")
	}
	return q.with + `
SELECT json_build_object(
    'engine', ` + engineSQL + `,
    'names', (SELECT row_to_json(names) FROM names),
    'found', json_build_array(` + strings.Join(found, ",") + `))`
}

func (p *problem) sql(decisive bool) string {
	text := "SELECT " + p.columns
	switch p.of {
	case ofServer:
		text += "\n  "
	case ofDedup:
		text = `SELECT t."table", ` + cmp.Or(p.columns, "t.key") + "\n  FROM (SELECT * FROM t WHERE optional IS NULL) AS t "
	case ofTables:
		text = `SELECT t.optional, t."table", ` + cmp.Or(p.columns, "t.key") + "\n  FROM t "
	}
	text += p.from
	if decisive {
		text += "\n   AND (" + p.decisive + ")"
	}
	return text
}

// answer is the server's answer: rows for each problem of the query.
type answer struct {
	Engine Engine  `json:"engine"`
	Names  Row     `json:"names"`
	Found  [][]Row `json:"found"`
}

// found converts the answer to Problems. Those of the optional tables come last, table by table.
func (q *query) found(a *answer) (found []Problem) {
	optional := map[string][]Problem{}
	for i, p := range q.problems {
		var some []Problem
		for _, row := range a.Found[i] {
			maps.Copy(row, a.Names)
			one := Problem{Name: p.name, What: row.Fill(p.what), Fix: row.Fill(p.fix), Warning: p.warning}
			if table := row.text("optional"); table != "" {
				one.Name = table + "_broken"
				if p.name == missing {
					one.Name = table + "_missing"
				}
				optional[table] = append(optional[table], one)
				continue
			}
			some = append(some, one)
		}
		slices.SortFunc(some, func(a, b Problem) int { return strings.Compare(a.What, b.What) })
		if found = append(found, some...); p.last && len(some) > 0 {
			return found
		}
	}
	for _, want := range optionalTables() {
		for _, one := range optional[want.optional] {
			one.Warning = want.warning
			found = append(found, one)
		}
	}
	return found
}

// thereSQL finds the needs that are met.
const thereSQL = `
WITH nsp AS (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1::text)
SELECT json_build_object(
    'versions', EXISTS (
        SELECT
          FROM pg_catalog.pg_class v
          JOIN nsp ON nsp.oid = v.relnamespace
         WHERE v.relname = $2::text AND v.relkind = 'r' AND has_schema_privilege(nsp.oid, 'USAGE') AND has_table_privilege(v.oid, 'SELECT')
           AND 2 = (SELECT count(*)
                      FROM pg_catalog.pg_attribute a
                     WHERE a.attrelid = v.oid AND a.attname IN ('version_id', 'is_applied') AND NOT a.attisdropped)),
    'citus', EXISTS (
        SELECT
          FROM pg_catalog.pg_class d
         WHERE d.relnamespace = 'pg_catalog'::regnamespace AND d.relname = 'pg_dist_partition'
           AND has_table_privilege(d.oid, 'SELECT')))`

// withTables are the tables $2 of the schema $1. relation is any relation with such a name, and t
// those that are tables. rels are these and their partitions, because an object of a partition can
// act on a record too.
const withTables = `
WITH RECURSIVE names AS (
    SELECT quote_ident($1::text) AS schema, quote_ident(current_database()) AS database, quote_ident(current_user) AS role
), nsp AS (
    SELECT oid
      FROM pg_catalog.pg_namespace
     WHERE nspname = $1::text
), wanted AS (
    SELECT *, format('%I.%I', $1::text, bare) AS "table"
      FROM json_to_recordset($2::json) AS w (bare text, optional text, versions json, privileges text, key text, key_columns text, key_ddl text, without text, other_key text, columns json)
), relation AS (
    SELECT w.*, c.oid, c.relkind, c.relpersistence
      FROM wanted w
      JOIN pg_catalog.pg_class c ON c.relname = w.bare::name
      JOIN nsp ON nsp.oid = c.relnamespace
), t AS (
    SELECT * FROM relation WHERE relkind IN ('r', 'p')
), tree AS (
    SELECT oid AS root, oid FROM t
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
), pk AS (
    SELECT k.conrelid AS oid, quote_ident(k.conname) AS name, format('%I.%I', $1::text, k.conname) AS index, k.condeferrable, i.indisvalid,
           (SELECT string_agg(a.attname::text, ', ' ORDER BY a.attname COLLATE "C")
              FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)) AS columns
      FROM t
      JOIN pg_catalog.pg_constraint k ON k.conrelid = t.oid AND k.contype = 'p'
      JOIN pg_catalog.pg_index i ON i.indexrelid = k.conindid
)`

// withColumns are the wanted columns, each with the existing one.
const withColumns = `, columns AS (
    SELECT t.oid, c.name AS "column", c.type AS wanted, c.ordered, c.nullable, c.ddl, a.attnum, a.attnotnull,
           pg_catalog.format_type(a.atttypid, a.atttypmod) AS type,
           CASE WHEN l.oid IS NULL THEN ''
                WHEN l.collnamespace = 'pg_catalog'::regnamespace THEN format('%I', l.collname)
                ELSE format('%s.%I', l.collnamespace::regnamespace, l.collname) END AS collation
      FROM t
     CROSS JOIN LATERAL json_to_recordset(t.columns) AS c (name text, type text, ordered boolean, nullable boolean, ddl text)
      LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attname = c.name::name AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
), due AS (
    SELECT i.indrelid AS oid, format('%I.%I', $1::text, x.relname) AS index, i.indisvalid,
           m.amname = 'btree' AND i.indnkeyatts = 1 AND i.indpred IS NULL
               AND translate(pg_catalog.pg_get_expr(i.indexprs, i.indrelid), ' ()' || chr(10), '') IS NOT DISTINCT FROM translate('` + DueExpression + `', ' ()', '') AS as_wanted
      FROM t
      JOIN pg_catalog.pg_index i ON i.indrelid = t.oid
      JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid AND x.relname = 'tool_dedup_due'
      JOIN pg_catalog.pg_am m ON m.oid = x.relam
)`
