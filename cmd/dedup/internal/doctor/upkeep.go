package doctor

import "github.com/tooldedup/dedup/internal/examiner"

const instant = `'YYYY-MM-DD"T"HH24:MI:SS"Z"'`

// sweep is how long records have been due, of the first 100,000. What calls are answered goes by
// time alone: what is behind costs room.
func sweep() check {
	const due = "{count} records are due, the oldest since {since} ({age})"
	return check{
		id: "sweep", ofTable: true,
		sql: `SELECT CASE WHEN due.n = 100000 THEN '100000 or more' ELSE due.n::text END AS count, to_char(due.oldest AT TIME ZONE 'UTC', ` + instant + `) AS since,
       extract(epoch FROM due.age) AS age, due.oldest IS NULL AS nothing, due.age <= given.overdue AS sound, due.age > given.overdue AS sweep_behind
  FROM given, (SELECT min(due) AS oldest, count(*) AS n, clock_timestamp() - min(due) AS age
                 FROM (SELECT ` + examiner.DueExpression + ` AS due
                         FROM {dedup}
                        WHERE ` + examiner.DueExpression + ` <= now()
                        ORDER BY 1
                        LIMIT 100000) AS first) AS due`,
		judge: []judgement{
			{id: "sweep", severity: SeverityOK, when: "nothing", evidence: "nothing is due"},
			{id: "sweep", severity: SeverityOK, when: "sound", evidence: due},
			{
				id: "sweep_behind", severity: SeverityWarning,
				what:     "the sweep is behind schedule: the table grows, and holds results for longer than Retention.Result says. No call is answered otherwise for it",
				evidence: due,
				fix:      "run a Sweeper on every instance; if there is one, look for its errors (tool_dedup_swept) and shorten its Interval",
			},
		},
	}
}

// effects is what package external has left for somebody to do: the first 1,000 entries of each
// partial index. Operations may be parked, or open, for a day: somebody has had time to look.
func effects() check {
	judge := func(id, what, of, fix string) judgement {
		return judgement{
			id: id, severity: SeverityWarning, fix: fix,
			what: "operations outside of the database " + what, evidence: "{count} " + of + ", the oldest since {since} ({age})",
		}
	}
	return check{
		id: "effects", otherwise: "no table tool_effect that this role may read: it has no effects outside of the database",
		only: `
SELECT EXISTS (
    SELECT
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1::text AND c.relname = 'tool_effect' AND pg_catalog.has_table_privilege(c.oid, 'SELECT'))`,
		sql: `WITH attention AS (
    SELECT changed_at, state = 'parked' AS parked, twice IS NOT NULL AS twice
      FROM {effects}
     WHERE state = 'parked' OR twice IS NOT NULL
     ORDER BY changed_at
     LIMIT 1000
), due AS (
    SELECT due_at, tool
      FROM {effects}
     WHERE due_at IS NOT NULL AND due_at <= now()
     ORDER BY due_at
     LIMIT 1000
), open AS (
    SELECT created_at
      FROM {effects}
     WHERE due_at IS NOT NULL AND state IN ('pending', 'running') AND created_at <= now() - interval '1 day'
     LIMIT 1000
), forget AS (
    SELECT forget_at
      FROM {effects}
     WHERE forget_at IS NOT NULL AND forget_at <= now() AND due_at IS NULL
     ORDER BY forget_at
     LIMIT 1000
), kinds (kind, n, since, allowed) AS (
    SELECT 'parked', count(*), min(changed_at), interval '1 day' FROM attention WHERE parked
     UNION ALL
    SELECT 'open', count(*), min(created_at), interval '0' FROM open
     UNION ALL
    SELECT 'twice', count(*), min(changed_at), interval '-1 day' FROM attention WHERE twice
     UNION ALL
    SELECT 'due', count(*), min(due_at), given.overdue FROM given LEFT JOIN due ON true GROUP BY given.overdue
     UNION ALL
    SELECT 'forget', count(*), min(forget_at), given.overdue FROM given LEFT JOIN forget ON true GROUP BY given.overdue
), judged AS (
    SELECT kind, n, since, now() - since AS age, COALESCE(now() - since > allowed, false) AS bad
      FROM kinds
)
SELECT CASE WHEN n = 1000 THEN '1000 or more' ELSE n::text END AS count, to_char(since AT TIME ZONE 'UTC', ` + instant + `) AS since, extract(epoch FROM age) AS age,
       (SELECT string_agg(format('"%s"', tool), ' ' ORDER BY tool) FROM (SELECT DISTINCT tool FROM (SELECT tool FROM due LIMIT 10) AS first) AS of) AS tools,
       bad AND kind = 'parked' AS effects_parked, bad AND kind = 'open' AS effects_open, bad AND kind = 'twice' AS effects_twice,
       bad AND kind = 'due' AS effects_due, bad AND kind = 'forget' AS effects_sweep_behind,
       kind = 'parked' AND NOT bool_or(bad) OVER () AS sound,
       (SELECT count(*) FROM attention WHERE parked)::text AS parked, (SELECT count(*) FROM due)::text AS due, (SELECT count(*) FROM forget)::text AS forget
  FROM judged`,
		judge: []judgement{
			judge("effects_parked", "have been parked for more than a day: each may have happened, and its callers get no answer before somebody has said so", "parked",
				"list them with `dedup parked`, look at the provider's books, and say what you found with `dedup resolve`"),
			judge("effects_open", "have been open for more than a day: they are tried again and again, and get no answer", "open",
				"list them with `dedup parked --open`, and see in their notes what fails: a look-up that may not ask, a provider that answers 500 for ever. Repair that, or say what you found in the provider's books with `dedup resolve`"),
			judge("effects_twice", "happened twice: the provider has further effects beside the one that is recorded", "listed as twice",
				"list them with `dedup parked` and undo what is too much at the provider, say so with `dedup resolve --cleared`, and look for a Settles that is too short, a KeyKept that is longer than the provider's, or a verdict that was wrong"),
			{
				id: "effects_due", severity: SeverityWarning,
				what:     "operations outside of the database are due, and no process acts: what was accepted is not done, and what was cut off is not found out",
				evidence: "{count} due, the oldest since {since} ({age}), of the tools [{tools}]",
				fix:      "run Tools.Recover in a process that has these tools; if there is one, look for its errors, and raise Options.Workers",
			},
			judge("effects_sweep_behind", "that may be forgotten are not deleted: tool_effect grows. No call is answered otherwise for it", "to be forgotten",
				"run Tools.Recover in every process; it deletes them once a minute"),
			{id: "effects", severity: SeverityOK, when: "sound", evidence: "{parked} parked, {due} due, {forget} to be forgotten"},
		},
	}
}

// vacuum is what sweeping leaves behind: it costs room and time. The migrations have autovacuum
// come after a fiftieth of the table has died; ten times that says that it does not. The wanted size
// of the primary key's index is that of the index built anew: a page that is there in any case, and
// for each entry its header, its line pointer, its alignment and its columns, on pages that are
// three quarters full. A crash takes the statistics along, and who may not read the table may not
// read them either.
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
		judge: []judgement{{
			id: "autovacuum_off", severity: SeverityWarning, when: "server_off", what: off,
			evidence: "autovacuum = off", fix: "set autovacuum = on in postgresql.conf and reload the server",
		}, {
			id: "autovacuum_off", severity: SeverityWarning, when: "tables_off", what: off,
			evidence: "autovacuum_enabled = off for {names}", fix: "run: {fix}",
		}, {
			id: "dead_rows", severity: SeverityWarning,
			what: "vacuum does not keep up: calls and sweeps read past rows that are dead", evidence: state,
			fix: "look for transactions that stay open for hours (pg_stat_activity, replication slots); then, as the owner, run: VACUUM (ANALYZE) {table}",
		}, {
			id: "vacuum", severity: SeverityUnknown, when: "unread", what: notReadable,
			evidence: "the primary key's index has {size}, and there are no statistics of the table that this role may read",
			fix:      "run, as the owner: ANALYZE {table}",
		}, {
			id: "index_bloat", severity: SeverityWarning,
			what:     "the primary key's index is mostly empty: every call reads more of it, and less of it stays in memory. To build it anew takes room for both meanwhile",
			evidence: "{size} for {live} records, which need some {wanted}",
			fix:      "run: REINDEX TABLE CONCURRENTLY {table}",
		}, {id: "vacuum", severity: SeverityOK, when: "sound", evidence: state}},
	}
}
