package tool

import "fmt"

// The time is that of the statement, which is younger than the lock. Unlike
// clock_timestamp() it can be compared by an index, so that no call reads more of
// the table than its own rows.

// enterSQL writes a call down with the latest one before it, and selects that.
func (t guardTables) enterSQL() string {
	return fmt.Sprintf(`WITH earlier AS MATERIALIZED (
  SELECT seen.key, seen.at
    FROM %[1]s AS seen
   WHERE seen.likeness = $1::bytea
     AND seen.key <> $2::text
     AND seen.at > pg_catalog.statement_timestamp() - $3::bigint * interval '1 microsecond'
   ORDER BY seen.at DESC
   LIMIT 1
), own AS (
  INSERT INTO %[1]s (likeness, key, at, until, earlier_key, earlier_at)
  SELECT $1::bytea, $2::text, own.at, own.at + $4::bigint * interval '1 microsecond', earlier.key, earlier.at
    FROM (SELECT pg_catalog.statement_timestamp() AS at) AS own
    LEFT JOIN earlier ON true
  ON CONFLICT (likeness, key) DO UPDATE
     SET at = EXCLUDED.at, until = EXCLUDED.until, earlier_key = EXCLUDED.earlier_key, earlier_at = EXCLUDED.earlier_at
)
SELECT earlier.key, earlier.at, record.result
  FROM earlier
  LEFT JOIN %[2]s AS record
    ON record.scope = $5::text AND record.tool = $6::text AND record.key = earlier.key
   AND record.outcome = 'done' AND record.expires_at > pg_catalog.statement_timestamp()`, t.seen, t.records)
}

// recallSQL selects what enterSQL has written down of the call before.
func (t guardTables) recallSQL() string {
	return fmt.Sprintf(`SELECT own.earlier_key, own.earlier_at, record.result
  FROM %[1]s AS own
  LEFT JOIN %[2]s AS record
    ON record.scope = $3::text AND record.tool = $4::text AND record.key = own.earlier_key
   AND record.outcome = 'done' AND record.expires_at > pg_catalog.statement_timestamp()
 WHERE own.likeness = $1::bytea
   AND own.key = $2::text
   AND own.earlier_key IS NOT NULL`, t.seen, t.records)
}

// cleanSQL deletes rows that have served their time: more than one for each that
// comes, so that the table does not grow on.
func (t guardTables) cleanSQL() string {
	return fmt.Sprintf(`DELETE FROM %[1]s
 WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM %[1]s
        WHERE until <= pg_catalog.statement_timestamp()
        ORDER BY until
        LIMIT 2
        FOR UPDATE SKIP LOCKED))`, t.seen)
}
