package table

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// statSQL are the statements of tool_dedup_stat.
type statSQL struct{ now, insert, forget string }

const (
	// statDays is how long counts are kept.
	statDays = 14
	// statBatch is how many rows of counts one statement deletes.
	statBatch = 5_000
)

func newStatSQL(schema string) statSQL {
	stat := pgx.Identifier{schema, "tool_dedup_stat"}.Sanitize()
	// What a crash takes back are counts of its last moment.
	unsynced := "(SELECT " + setLocal("synchronous_commit", "off") + ") AS unsynced"
	return statSQL{
		now: `SELECT pg_catalog.clock_timestamp()`,
		// An answer that was lost is followed by the same rows again.
		insert: fmt.Sprintf(`INSERT INTO %s (at, instance, tool, outcome, calls, seconds, waited)
SELECT $1::timestamptz, $2::text, counted.tool, counted.outcome, counted.calls, counted.seconds, counted.waited
  FROM %s, unnest($3::text[], $4::text[], $5::bigint[], $6::double precision[], $7::double precision[]) AS counted (tool, outcome, calls, seconds, waited)
ON CONFLICT DO NOTHING`, stat, unsynced),
		forget: fmt.Sprintf(`DELETE FROM %[1]s
 USING %[2]s
 WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM %[1]s WHERE at < pg_catalog.now() - interval '%[3]d days' ORDER BY at LIMIT %[4]d FOR UPDATE SKIP LOCKED))`,
			stat, unsynced, statDays, statBatch),
	}
}

// Counts are how many calls had which outcome, a column each.
type Counts struct {
	At              time.Time // by the database's clock; it names the rows with the instance
	Tools, Outcomes []string
	Calls           []int64
	Seconds, Waited []float64
}

// Now is the database's clock.
func (t *Table) Now(ctx context.Context, conn *pgx.Conn) (now time.Time, err error) {
	err = conn.QueryRow(ctx, t.stat.now).Scan(&now)
	return now, err
}

// RecordCounts inserts counts of a process, unless they are there already.
func (t *Table) RecordCounts(ctx context.Context, conn *pgx.Conn, instance string, c *Counts) error {
	_, err := conn.Exec(ctx, t.stat.insert, c.At, instance, c.Tools, c.Outcomes, c.Calls, c.Seconds, c.Waited)
	return err
}

// ForgetCounts deletes some of the counts that are old.
func (t *Table) ForgetCounts(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, t.stat.forget)
	return err
}
