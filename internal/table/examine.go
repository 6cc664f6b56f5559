package table

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// problems are the words for the columns of statements.arbiter, in order.
// Each of them would let an effect be committed twice, or without its record.
var problems = [...]string{
	"the table does not exist; apply the migrations",
	"its primary key is not exactly (scope, tool, key), valid and not deferrable",
	"it is UNLOGGED or temporary, and its records would not outlive a crash that their effects survive",
	"a BEFORE INSERT trigger can swallow or change a record",
	"a rule can swallow a record",
}

// examineSQL asks about the table and its partitions. A trigger of updates can
// swallow the record where a claim is completed ($2). It asks the catalogue and
// never the table, so that it cannot fail and abort a caller's transaction.
const examineSQL = `WITH RECURSIVE rels AS (
       SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1::text AND c.relname = 'tool_dedup'
       UNION ALL SELECT h.inhrelid FROM pg_catalog.pg_inherits h JOIN rels ON h.inhparent = rels.oid)
SELECT t.oid IS NULL,
       t.oid IS NOT NULL AND NOT EXISTS (
         SELECT FROM pg_catalog.pg_index i
          WHERE i.indrelid = t.oid AND i.indisprimary AND i.indisvalid AND i.indimmediate
            AND (SELECT array_agg(a.attname::text ORDER BY a.attname::text)
                   FROM pg_catalog.pg_attribute a
                  WHERE a.attrelid = t.oid AND a.attnum = ANY (i.indkey)) = ARRAY['key', 'scope', 'tool']),
       EXISTS (SELECT FROM rels JOIN pg_catalog.pg_class c ON c.oid = rels.oid WHERE c.relpersistence <> 'p'),
       EXISTS (SELECT FROM pg_catalog.pg_trigger g JOIN rels ON g.tgrelid = rels.oid
                WHERE NOT g.tgisinternal AND g.tgenabled <> 'D'
                  AND g.tgtype & 3 = 3 AND (g.tgtype & 4 <> 0 OR $2::bool AND g.tgtype & 16 <> 0)), -- BEFORE, FOR EACH ROW, INSERT or UPDATE
       EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = t.oid AND r.ev_type = '3'),
       pg_catalog.version() ~ '^PostgreSQL [0-9]+(\.|beta|rc|devel| |$)' AND pg_catalog.version() !~ '-YB-'
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'citus'),
       pg_catalog.clock_timestamp()
  FROM (VALUES ($1::text)) AS wanted (schema)
  LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.schema
  LEFT JOIN pg_catalog.pg_class t ON t.relnamespace = n.oid AND t.relname = 'tool_dedup'`

// Missing is the problem of a table that does not exist.
var Missing = problems[0]

// Examination is what was seen of a table.
type Examination struct {
	// Problems says in words why the table cannot decide races; none where it can.
	Problems []string
	// Plain is true when the server is a PostgreSQL on which effect and record can be one
	// statement.
	Plain bool
	// Now is the database's clock.
	Now time.Time
}

// Examine looks at the table in one round trip.
func (t *Table) Examine(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (x Examination, err error) {
	var found [len(problems)]bool
	err = db.QueryRow(ctx, examineSQL, t.opts.Schema, t.opts.ClaimFirst).Scan(&found[0], &found[1], &found[2], &found[3], &found[4], &x.Plain, &x.Now)
	for i, problem := range problems {
		if found[i] {
			x.Problems = append(x.Problems, problem)
		}
	}
	return x, err
}
