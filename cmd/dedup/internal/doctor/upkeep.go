package doctor

import (
	"fmt"

	"github.com/tooldedup/dedup/internal/examiner"
)

const instant = `'YYYY-MM-DD"T"HH24:MI:SS"Z"'`

// hasEffects is the condition of a table tool_effect that the role may read.
const hasEffects = `
SELECT EXISTS (
    SELECT
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = @schema::text AND c.relname = 'tool_effect'
       AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT'))`

// upkeepChecks report overdue work: records to sweep, operations outside the database to advance,
// and operations to delete. `dedup attention` lists the work for a person.
func upkeepChecks() []check {
	return []check{
		overdue(check{id: "sweep", ofTable: true}, examiner.DueExpression, "{dedup} WHERE true", 100_000, Finding{
			ID:   "sweep_behind",
			What: "the sweep is behind schedule: the table grows, and holds results for longer than Retention.Result says. No call is answered otherwise for it",
			Fix:  "run a Sweeper on every instance; if there is one, look for its errors (tool_dedup_swept) and shorten its Interval",
		}),
		overdue(check{
			id: "effects", only: hasEffects, otherwise: "no table tool_effect that this role may read: it has no effects outside the database",
		}, "due_at", "{effects} WHERE due_at IS NOT NULL", 1000, Finding{
			ID:   "effects_due",
			What: "operations outside the database are due, and no process acts: what was accepted is not done, and what was cut off is not found out",
			Fix:  "run Tools.Recover in a process that has their tools, which `dedup parked --open` lists; if there is one, look for its errors, and raise Options.Workers",
		}),
		overdue(check{id: "effects_sweep", only: hasEffects}, "forget_at", "{effects} WHERE forget_at IS NOT NULL AND due_at IS NULL", 1000, Finding{
			ID:   "effects_sweep_behind",
			What: "operations outside the database that may be forgotten are not deleted: tool_effect grows. No call is answered otherwise for it",
			Fix:  "run Tools.Recover in every process; it deletes them once a minute",
		}),
		vacuum(),
	}
}

// overdue checks how long rows have been due, among the first limit rows of an index. Late rows do
// not change the answer of a call: it depends on the time alone.
func overdue(c check, expression, from string, limit int, behind Finding) check {
	const due = "{count} are due, the oldest since {since} ({age})"
	c.sql = fmt.Sprintf(`SELECT CASE WHEN due.n = %[3]d THEN '%[3]d or more' ELSE due.n::text END AS count, to_char(due.oldest AT TIME ZONE 'UTC', `+instant+`) AS since,
       extract(epoch FROM due.age) AS age, due.oldest IS NULL AS nothing, due.age <= @overdue::interval AS sound, due.age > @overdue::interval AS behind
  FROM (SELECT min(due) AS oldest, count(*) AS n, clock_timestamp() - min(due) AS age
          FROM (SELECT %[1]s AS due
                  FROM %[2]s AND %[1]s <= now()
                 ORDER BY 1
                 LIMIT %[3]d) AS first) AS due`, expression, from, limit)
	behind.Severity, behind.when, behind.Evidence = SeverityWarning, "behind", due
	c.judge = []Finding{behind, sound(c.id, "nothing", "nothing is due"), sound(c.id, "sound", due)}
	return c
}

// vacuum reports dead rows and a bloated index. The migrations set autovacuum to 2% dead rows; ten
// times that shows that it does not run. The wanted size of the primary key's index is the size
// after a REINDEX: one page, and per entry its header, line pointer, alignment and columns, on
// pages that are three quarters full. A crash resets the statistics. A role that may not read the
// table may not read them either.
func vacuum() check {
	const (
		off   = "autovacuum is off: what sweeping leaves is never used again, and the table and its indexes grow without end"
		state = "{live} live rows, {dead} dead, last vacuum {last}"
	)
	return check{
		id: "vacuum", ofTable: true,
		sql: `WITH rels AS (
    SELECT c.oid, c.reloptions, format('%I.%I', n.nspname, c.relname) AS name
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind = 'r'
       AND c.oid IN (SELECT oid FROM target
                     UNION
                     SELECT tree.relid FROM target, pg_catalog.pg_partition_tree(target.oid) tree)
), rows AS (
    SELECT COALESCE(sum(t.n_live_tup), 0) AS live, COALESCE(sum(t.n_dead_tup), 0) AS dead, max(greatest(t.last_vacuum, t.last_autovacuum)) AS last
      FROM pg_catalog.pg_stat_all_tables t
      JOIN rels ON rels.oid = t.relid
), off AS (
    SELECT string_agg(rels.name, ', ' ORDER BY rels.name) AS names,
           string_agg('ALTER TABLE ' || rels.name || ' RESET (autovacuum_enabled)', '; ' ORDER BY rels.name) AS fix
      FROM rels
      JOIN pg_catalog.pg_options_to_table(rels.reloptions) o ON o.option_name = 'autovacuum_enabled'
     WHERE NOT o.option_value::boolean
), key AS (
    SELECT (SELECT COALESCE(sum(pg_catalog.pg_relation_size(i.indexrelid)), 0)
              FROM pg_catalog.pg_index i
              JOIN rels ON rels.oid = i.indrelid
             WHERE i.indisprimary) AS bytes,
           (SELECT COALESCE(sum(width), 0)
              FROM (SELECT max(p.avg_width) AS width
                      FROM pg_catalog.pg_stats p
                      JOIN rels ON rels.name = format('%I.%I', p.schemaname, p.tablename)
                     WHERE p.attname IN ('scope', 'tool', 'key')
                     GROUP BY p.attname) AS widths) AS width
), judged AS (
    SELECT rows.*, off.*, key.bytes, 8192 + rows.live * (16 + key.width) / 0.75 AS wanted, NOT current_setting('autovacuum')::boolean AS server_off,
           rows.dead >= 10000 AND rows.dead >= 0.2 * (rows.live + rows.dead) AS dead_rows,
           key.bytes >= 16 << 20 AS large, key.width = 0 OR rows.live + rows.dead = 0 AND rows.last IS NULL AS no_statistics
      FROM rows, off, key
     WHERE EXISTS (SELECT FROM rels)
)
SELECT target."table", j.names, j.fix, j.live::text, j.dead::text, COALESCE(to_char(j.last AT TIME ZONE 'UTC', ` + instant + `), 'never') AS last,
       round(j.bytes / 1048576, 1) || ' MB' AS size, round(j.wanted / 1048576, 1) || ' MB' AS wanted,
       j.server_off, j.names IS NOT NULL AS tables_off, j.dead_rows,
       j.large AND j.no_statistics AS unread, j.large AND NOT j.no_statistics AND j.bytes >= 3 * j.wanted AS index_bloat,
       NOT (j.server_off OR j.names IS NOT NULL OR j.dead_rows OR j.large AND (j.no_statistics OR j.bytes >= 3 * j.wanted)) AS sound
  FROM judged j, target`,
		judge: []Finding{{
			ID: "autovacuum_off", Severity: SeverityWarning, when: "server_off", What: off,
			Evidence: "autovacuum = off", Fix: "set autovacuum = on in postgresql.conf and reload the server",
		}, {
			ID: "autovacuum_off", Severity: SeverityWarning, when: "tables_off", What: off,
			Evidence: "autovacuum_enabled = off for {names}", Fix: "run: {fix}",
		}, {
			ID: "dead_rows", Severity: SeverityWarning,
			What: "vacuum does not keep up: calls and sweeps read past rows that are dead", Evidence: state,
			Fix: "look for transactions that stay open for hours (pg_stat_activity, replication slots); then, as the owner, run: VACUUM (ANALYZE) {table}",
		}, unread("vacuum", "unread", "the primary key's index has {size}, and there are no statistics of the table that this role may read", "run, as the owner: ANALYZE {table}"), {
			ID: "index_bloat", Severity: SeverityWarning,
			What:     "the primary key's index is mostly empty: every call reads more of it, and less of it stays in memory. To build it anew takes room for both meanwhile",
			Evidence: "{size} for {live} records, which need some {wanted}",
			Fix:      "run: REINDEX TABLE CONCURRENTLY {table}",
		}, sound("vacuum", "sound", state)},
	}
}
