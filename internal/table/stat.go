package table

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/wire"
)

// statSQL are the statements of tool_dedup_stat.
type statSQL struct{ now, insert, merge, forget string }

const (
	// statDays is the number of days for which counts are kept.
	statDays = 14
	// statBatch is the number of rows of counts that one statement deletes or merges.
	statBatch = 5_000
)

func newStatSQL(schema string) statSQL {
	stat := pgx.Identifier{schema, "tool_dedup_stat"}.Sanitize()
	// A crash loses only the counts of its last moment.
	unsynced := "(SELECT " + setLocal("synchronous_commit", "off") + ") AS unsynced"
	return statSQL{
		now: `SELECT ` + Micros("pg_catalog.clock_timestamp()"),
		// After a lost reply the same rows are sent again.
		insert: fmt.Sprintf(`INSERT INTO %s (at, instance, tool, outcome, calls, seconds, waited)
SELECT $1::timestamptz, $2::text, counted.tool, counted.outcome, counted.calls, counted.seconds, counted.waited
  FROM %s, unnest($3::text[], $4::text[], $5::bigint[], $6::double precision[], $7::double precision[]) AS counted (tool, outcome, calls, seconds, waited)
ON CONFLICT DO NOTHING`, stat, unsynced),
		// A report of a day must not read a row for each minute of each process. Rows of an hour
		// ago are added up by tool, outcome and quarter of an hour, without an instance. The order
		// keeps two processes from waiting for each other.
		merge: fmt.Sprintf(`WITH merged AS (
       DELETE FROM %[1]s
        USING %[2]s
        WHERE ctid = ANY (ARRAY(
              SELECT ctid FROM %[1]s
               WHERE at < pg_catalog.now() - interval '1 hour' AND at > pg_catalog.now() - interval '1 day' AND instance <> ''
               ORDER BY at LIMIT %[3]d FOR UPDATE SKIP LOCKED))
    RETURNING at, tool, outcome, calls, seconds, waited)
INSERT INTO %[1]s AS sum (at, instance, tool, outcome, calls, seconds, waited)
SELECT pg_catalog.to_timestamp(900 * floor(extract(epoch FROM at) / 900)), '', tool, outcome, sum(calls), sum(seconds), sum(waited)
  FROM merged
 GROUP BY 1, 3, 4
 ORDER BY 1, 3, 4
ON CONFLICT (at, instance, tool, outcome) DO UPDATE
   SET calls = sum.calls + EXCLUDED.calls, seconds = sum.seconds + EXCLUDED.seconds, waited = sum.waited + EXCLUDED.waited`,
			stat, unsynced, statBatch),
		forget: fmt.Sprintf(`DELETE FROM %[1]s
 USING %[2]s
 WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM %[1]s WHERE at < pg_catalog.now() - interval '%[3]d days' ORDER BY at LIMIT %[4]d FOR UPDATE SKIP LOCKED))`,
			stat, unsynced, statDays, statBatch),
	}
}

// Counts are numbers of calls by outcome, as columns.
type Counts struct {
	At              time.Time // by the database's clock; it names the rows with the instance
	Tools, Outcomes []string
	Calls           []int64
	Seconds, Waited []float64
}

// Now returns the database's clock.
func (t *Table) Now(ctx context.Context, conn *pgx.Conn) (now time.Time, err error) {
	err = conn.QueryRow(ctx, t.stat.now).Scan(wire.Times(&now))
	return now, err
}

// RecordCounts inserts counts of a process, unless the table has them.
func (t *Table) RecordCounts(ctx context.Context, conn *pgx.Conn, instance string, c *Counts) error {
	_, err := conn.Exec(ctx, t.stat.insert, c.At, instance, c.Tools, c.Outcomes, c.Calls, c.Seconds, c.Waited)
	return err
}

// MergeCounts adds up some counts of more than an hour ago. If rows lie on several servers it does
// nothing: a node does not accept such a statement for a table of another node.
func (t *Table) MergeCounts(ctx context.Context, conn *pgx.Conn) error {
	if t.Profile.Spread {
		return nil
	}
	_, err := conn.Exec(ctx, t.stat.merge)
	return err
}

// ForgetCounts deletes some of the old counts.
func (t *Table) ForgetCounts(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, t.stat.forget)
	return err
}
