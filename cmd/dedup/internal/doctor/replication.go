package doctor

// waitedFor is the number of standbys that a value of synchronous_standby_names asks for, such as
// 2 in "ANY 2 (a, b, c)".
const waitedFor = `COALESCE((regexp_match(value, '^\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\(', 'i'))[1]::int, 1)`

// replication reports the calls that a failover could lose. A running base backup and a logical
// subscriber are not standbys. The library turns synchronous_commit on, so its COMMIT waits for
// standbys even if the setting is off.
func replication() check {
	const readable = ` AND NOT r.hidden AND NOT r.in_recovery`
	return check{
		id: "replication",
		sql: `SELECT names.evidence AS names, r.*, r.n::text AS many, r.away IS NOT NULL AND NOT r.in_recovery AS slots,
       r.hidden AND NOT r.in_recovery AS unseen,
       names.missing` + readable + ` AS missing, r.late IS NOT NULL` + readable + ` AS asynchronous,
       NOT names.missing AND r.late IS NULL AND r.away IS NULL` + readable + ` AS sound
  FROM (SELECT pg_catalog.pg_is_in_recovery() AS in_recovery, quote_ident(current_user) AS role, count(*) AS n, COALESCE(bool_or(r.state IS NULL), false) AS hidden,
               count(*) FILTER (WHERE r.sync_state IN ('sync', 'quorum')) AS waiting,
               string_agg(r.application_name, ', ' ORDER BY r.pid) FILTER (WHERE r.sync_state = 'async') AS late,
               COALESCE(string_agg(r.application_name || ' (' || r.sync_state || ')', ', ' ORDER BY r.pid), 'no standby') AS standbys,
               (SELECT string_agg(l.slot_name::text, ', ' ORDER BY l.slot_name)
                  FROM pg_catalog.pg_replication_slots l
                 WHERE l.slot_type = 'physical' AND NOT l.active AND NOT l.temporary) AS away
          FROM pg_catalog.pg_stat_replication r
         WHERE r.state IS DISTINCT FROM 'backup'
           AND NOT EXISTS (SELECT
                             FROM pg_catalog.pg_replication_slots l
                            WHERE l.active_pid = r.pid AND l.slot_type = 'logical')) AS r
 CROSS JOIN LATERAL (
       SELECT n.evidence, n.value <> '' AND l.value <> 'local' AND r.waiting < ` + `(SELECT ` + waitedFor + ` FROM (SELECT n.value) AS asked)` + ` AS missing
         FROM (` + settingsSQL + `) AS n, (` + settingsSQL + `) AS l
        WHERE n.name = 'synchronous_standby_names' AND l.name = 'synchronous_commit') AS names`,
		judge: []Finding{unread("replication", "in_recovery", "this server is a standby", "run it on the primary"), {
			ID: "standby_disconnected", Severity: SeverityWarning, when: "slots",
			What: "a standby that has a replication slot is not connected: it lags behind more and more, and WAL is kept for it without end. " +
				"If it takes over all the same, all calls since it left are gone, each with its effect and its record together",
			Evidence: "inactive physical slots: {away}",
			Fix:      "connect the standby, or if it is gone for good drop its slot: SELECT pg_drop_replication_slot('…')",
		}, unread("replication", "unseen", "role {role} may see that {many} connections replicate, and not how", "run: GRANT pg_read_all_stats TO {role}"), {
			ID: "synchronous_standby_missing", Severity: SeverityError, when: "missing",
			What: "COMMIT waits for more synchronous standbys than are connected: no call is answered. " +
				"Each ends in ErrOutcomeUnknown when its context does, and its COMMIT takes effect all the same",
			Evidence: "{names}; connected: {standbys}",
			Fix:      "connect what is missing, or ask for no more than is there: synchronous_standby_names in postgresql.conf, and reload the server",
		}, {
			ID: "standby_asynchronous", Severity: SeverityWarning, when: "asynchronous",
			What:     "standby {late} replicates asynchronously. If it takes over, " + lostByFailover,
			Evidence: "{standbys}; {names}",
			Fix:      "name it in synchronous_standby_names in postgresql.conf and reload the server; or never let it take over; or accept the loss",
		}, sound("replication", "sound", "{standbys}")},
	}
}
