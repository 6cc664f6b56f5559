package dedup

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ArbiterError tells that tool_dedup cannot decide races, so that no call is
// run. migrations.Check finds these conditions and more.
type ArbiterError struct {
	// Table is the table that was looked at.
	Table string
	// Problems says what is wrong with it, in words.
	Problems []string
}

// Error implements error.
func (e *ArbiterError) Error() string {
	return fmt.Sprintf("dedup: %s cannot decide races: %s; nothing is run until that is mended (see migrations.Check)",
		e.Table, strings.Join(e.Problems, "; "))
}

// Is makes errors.Is(err, ErrArbiter) true.
func (e *ArbiterError) Is(target error) bool { return target == ErrArbiter }

// arbiterProblems are the words for the columns of statements.arbiter, in order.
// Each of them would let an effect be committed twice, or without its record.
var arbiterProblems = [...]string{
	"the table does not exist; apply the migrations",
	"its primary key is not exactly (scope, tool, key), valid and not deferrable",
	"it is UNLOGGED or temporary, and its records would not outlive a crash that their effects survive",
	"a BEFORE INSERT trigger can swallow or change a record",
	"a rule can swallow a record",
}

// arbiterSQL asks about the table and its partitions. A trigger of updates can
// swallow the record where a claim is completed ($2). It asks the catalogue and
// never the table, so that it cannot fail and abort a caller's transaction.
const arbiterSQL = `WITH RECURSIVE rels AS (
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
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'citus')
  FROM (VALUES ($1::text)) AS wanted (schema)
  LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.schema
  LEFT JOIN pg_catalog.pg_class t ON t.relnamespace = n.oid AND t.relname = 'tool_dedup'`

// trustArbiter looks at the table of the pool's database once in the life of a
// Deduper, before the first effect, in one round trip. It returns an *ArbiterError
// where the table cannot keep the promise; that is not remembered, so that it can be
// mended.
func (d *Deduper) trustArbiter(ctx context.Context, conn *pgx.Conn) error {
	if d.trusted.Load() {
		return nil
	}
	plain, err := d.inspectArbiter(ctx, conn)
	if err != nil {
		return err
	}
	d.plain.Store(plain)
	d.trusted.Store(true)
	return nil
}

// trustArbiterOf is trustArbiter for a caller's transaction, which may be in
// another database than the pool's connections: then it looks once at that.
func (d *Deduper) trustArbiterOf(ctx context.Context, tx pgx.Tx) error {
	conn := connOf(tx)
	home := homeOf(conn)
	if home == d.home {
		return d.trustArbiter(ctx, conn)
	}
	if _, known := d.trustedElsewhere.Load(home); known {
		return nil
	}
	_, err := d.inspectArbiter(ctx, tx)
	if err == nil {
		d.trustedElsewhere.Store(home, nil)
	}
	return err
}

// distrust has the next call look at the table again.
func (d *Deduper) distrust() {
	d.trusted.Store(false)
	d.trustedElsewhere.Clear()
}

func (d *Deduper) inspectArbiter(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (plain bool, err error) {
	var found [len(arbiterProblems)]bool
	err = db.QueryRow(ctx, arbiterSQL, d.opts.Schema, d.opts.Order == ClaimFirst).Scan(&found[0], &found[1], &found[2], &found[3], &found[4], &plain)
	if err != nil {
		return false, err
	}
	var problems []string
	for i, problem := range arbiterProblems {
		if found[i] {
			problems = append(problems, problem)
		}
	}
	if problems != nil {
		return false, &ArbiterError{Table: d.sql.table, Problems: problems}
	}
	return plain, nil
}

// homeKey is where a connection's home is kept, for as long as it lives.
const homeKey = "github.com/tooldedup/dedup home"

// homeOf names the database that a connection was made to.
func homeOf(conn *pgx.Conn) string {
	data := conn.PgConn().CustomData()
	home, ok := data[homeKey].(string)
	if !ok {
		home = databaseOf(conn.Config())
		data[homeKey] = home
	}
	return home
}

func databaseOf(config *pgx.ConnConfig) string {
	return fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database)
}
