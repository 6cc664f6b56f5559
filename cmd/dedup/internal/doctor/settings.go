package doctor

// settingsSQL reads the settings that a new session gets. A setting of the URL overrides a stored
// one (ALTER ROLE, ALTER DATABASE), and a stored one overrides this session's: behind a pooler the
// session may be older than an ALTER ROLE. Booleans are spelled as in pg_settings. wanted is the
// value of the fix.
const settingsSQL = `
SELECT w.place, w.name, w.wanted, now.value, w.name || ' = ' || now.value || ', ' || CASE now.source
           WHEN 'client' THEN 'asked for by the connection'
           WHEN 'database user' THEN 'set for role ' || who.role || ' in database ' || who.database
           WHEN 'user' THEN 'set for role ' || who.role
           WHEN 'database' THEN 'set for database ' || who.database
           WHEN 'global' THEN 'set for all roles'
           WHEN 'configuration file' THEN 'set in the server''s configuration'
           WHEN 'command line' THEN 'set on the server''s command line'
           WHEN 'default' THEN 'the default'
           ELSE 'set by ' || now.source END AS evidence,
       CASE now.source
           WHEN 'client' THEN 'take ' || w.name || ' out of the connection''s URL'
           WHEN 'database user' THEN 'run: ALTER ROLE ' || who.role || ' IN DATABASE ' || who.database || who.assign
           WHEN 'user' THEN 'run: ALTER ROLE ' || who.role || who.assign
           WHEN 'database' THEN 'run: ALTER DATABASE ' || who.database || who.assign
           WHEN 'global' THEN 'run: ALTER ROLE ALL' || who.assign
           WHEN 'command line' THEN 'start the server with ' || w.name || ' = ' || w.wanted || ': its command line wins over postgresql.conf'
           ELSE 'set ' || w.name || ' = ' || w.wanted || ' in postgresql.conf and reload the server' END AS fix
  FROM (VALUES (1, 'fsync', 'on'), (2, 'full_page_writes', 'on'), (3, 'zero_damaged_pages', 'off'), (4, 'ignore_checksum_failure', 'off'),
               (5, 'synchronous_commit', 'on'), (6, 'synchronous_standby_names', ''), (7, 'client_encoding', '''UTF8''')) AS w (place, name, wanted)
  LEFT JOIN pg_catalog.pg_settings g ON g.name = w.name
 CROSS JOIN LATERAL (SELECT quote_ident(session_user) AS role, quote_ident(current_database()) AS database, ' SET ' || w.name || ' = ' || w.wanted AS assign) AS who
  LEFT JOIN LATERAL (
       SELECT lower(substr(line, length(w.name) + 2)) AS value,
              CASE WHEN s.setrole <> 0 AND s.setdatabase <> 0 THEN 'database user' WHEN s.setrole <> 0 THEN 'user' WHEN s.setdatabase <> 0 THEN 'database' ELSE 'global' END AS source
         FROM pg_catalog.pg_db_role_setting s, unnest(s.setconfig) AS line
        WHERE g.source <> 'client' AND split_part(line, '=', 1) = w.name
          AND s.setrole IN (0, (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = session_user))
          AND s.setdatabase IN (0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
        ORDER BY s.setrole <> 0 DESC, s.setdatabase <> 0 DESC
        LIMIT 1) AS stored ON true
 CROSS JOIN LATERAL (
       SELECT COALESCE(stored.source, g.source) AS source,
              CASE WHEN stored.value IS NULL THEN g.setting
                   WHEN g.vartype = 'bool' OR stored.value IN ('true', 'false', 'yes', 'no', '1', '0') THEN CASE WHEN stored.value::boolean THEN 'on' ELSE 'off' END
                   ELSE stored.value END AS value) AS now`

func clientEncoding() check {
	return check{
		id:  "client_encoding",
		sql: `SELECT s.evidence, s.fix, @encoding::text = 'UTF8' AS sound, @encoding::text <> 'UTF8' AS wrong FROM (` + settingsSQL + `) AS s WHERE s.name = 'client_encoding'`,
		judge: []Finding{{
			ID: "client_encoding_not_utf8", Severity: SeverityError, when: "wrong",
			What:     "client_encoding is not UTF8: every call is refused, since a key would be stored as other characters than it is made of and its next call be a stranger",
			Evidence: "{evidence}", Fix: "{fix}",
		}, sound("client_encoding", "sound", "UTF8")},
	}
}

// lostByFailover describes the loss if a standby that lags takes over.
const lostByFailover = "the last calls that were acknowledged can be gone, each with its effect and its record together. " +
	"A retry then runs again, and nothing is in the database twice; but what somebody did elsewhere with an answer that is gone stays done"

// durabilityChecks report settings that let a crash lose an acknowledged COMMIT. The library turns
// synchronous_commit on if it is off and keeps every other level.
func durabilityChecks() []check {
	unsafe := func(id, what, afterwards string) Finding {
		return Finding{ID: id, Severity: SeverityError, What: what, Evidence: "{evidence}", Fix: "{fix}" + afterwards}
	}
	off := func(when, reach string) Finding {
		return Finding{
			ID: "synchronous_commit_off", Severity: SeverityWarning, when: when,
			What: "synchronous_commit is off: a crash of the server can take back the last calls that were acknowledged, " +
				"each with its effect and its record together, so that nothing is in the database twice. " + reach,
			Evidence: "{evidence}", Fix: "{fix}",
		}
	}
	return []check{{
		id: "crash_safety", on: alsoOthers,
		sql: `SELECT s.name, s.evidence, s.fix, s.value IS NULL AS unread, s.value = s.wanted AS sound,
       s.value <> s.wanted AND s.name = 'fsync' AS fsync_off,
       s.value <> s.wanted AND s.name = 'full_page_writes' AS full_page_writes_off,
       s.value <> s.wanted AND s.name = 'zero_damaged_pages' AS zero_damaged_pages_on,
       s.value <> s.wanted AND s.name = 'ignore_checksum_failure' AS ignore_checksum_failure_on
  FROM (` + settingsSQL + `) AS s
 WHERE s.place <= 4
 ORDER BY s.place`,
		judge: []Finding{
			unsafe("fsync_off", "fsync is off: after a crash of the machine records can be gone whose effects are there, and their calls run again",
				"; if the machine has crashed meanwhile, restore a backup"),
			unsafe("full_page_writes_off", "full_page_writes is off: a page that a crash tears in half stays torn, and the records on it, or their index entries, are lost",
				"; only a file system that never tears a page, such as ZFS, is safe without"),
			unsafe("zero_damaged_pages_on", "zero_damaged_pages is on: a damaged page is read as an empty one, so its records vanish without an error and their calls run again", ""),
			unsafe("ignore_checksum_failure_on", "ignore_checksum_failure is on: a damaged page is read as if it were sound, and a record or index entry that is wrong lets a twin in", ""),
			unread("crash_safety", "unread", "the server has no setting {name}", tryAgain),
			sound("{name}", "sound", "{evidence}"),
		},
	}, {
		id: "synchronous_commit", on: alsoOthers,
		sql: `SELECT l.evidence, l.fix, n.value AS standbys, l.value = 'off' AND {here} AS off, l.value = 'off' AND NOT {here} AS off_elsewhere,
       l.value = 'local' AND n.value <> '' AS local, NOT (l.value = 'off' OR l.value = 'local' AND n.value <> '') AS sound
  FROM (` + settingsSQL + `) AS l, (` + settingsSQL + `) AS n
 WHERE l.name = 'synchronous_commit' AND n.name = 'synchronous_standby_names'`,
		judge: []Finding{
			off("off", "Do, DoStatement and DoBatch turn it on for their own transactions; DoTx does not"),
			off("off_elsewhere", "Do, DoStatement and DoBatch turn it on for the node that they are connected to, and this is another"),
			{
				ID: "synchronous_commit_local", Severity: SeverityWarning, when: "local",
				What:     "synchronous_commit is local although there is a synchronous standby: COMMIT does not wait for it, and if it takes over, " + lostByFailover,
				Evidence: "{evidence}; synchronous_standby_names = {standbys}", Fix: "{fix}",
			},
			sound("synchronous_commit", "sound", "{evidence}"),
		},
	}}
}
