package doctor

// citusChecks are where an effect's tables lie: those that are distributed by hash, and those of
// one shard; and what completes commits that span nodes. Reference tables lie on every node.
// Whether the table itself is distributed is part of the schema's check. The maintenance daemon is
// a background worker of each database. It is started by the first session that uses Citus there,
// if max_worker_processes leaves room for it.
func citusChecks() []check {
	return []check{{
		id: "citus", ofTable: true, only: hasCitus, otherwise: "no Citus",
		sql: `SELECT ours.logicalrelid::text AS ours, others.names AS others, others.names IS NULL AS sound, others.names IS NOT NULL AS apart
  FROM target
  JOIN pg_catalog.pg_dist_partition ours ON ours.logicalrelid = target.oid
 CROSS JOIN LATERAL (
       SELECT string_agg(d.logicalrelid::text, ', ' ORDER BY d.logicalrelid::text) AS names
         FROM pg_catalog.pg_dist_partition d
        WHERE d.colocationid <> ours.colocationid AND d.colocationid <> 0
          AND d.partmethod IN ('h', 'n') AND d.repmodel <> 't') AS others`,
		judge: []Finding{{
			ID: "citus_not_colocated", Severity: SeverityWarning, when: "apart",
			What: "distributed tables are not co-located with {ours}: an effect on one of them and its record lie on different nodes. " +
				"They are committed together by two-phase commit, slower, and visible on one node before the other; DoStatement cannot join them",
			Evidence: "not co-located: {others}",
			Fix: `for tables that effects write to: distribute them by a tenant column of the type of scope, text COLLATE "C", and SELECT update_distributed_table_colocation('…', colocate_with => 'tool_dedup'). ` +
				`Citus refuses that for every other type and collation, and to change them afterwards: SELECT undistribute_table('…'), ALTER TABLE … ALTER COLUMN … TYPE text COLLATE "C", and distribute it again`,
		}, sound("citus", "sound", "every distributed table is co-located with {ours}")},
	}, {
		id: "citus_maintenance", ofTable: true, only: hasCitus, on: byCitus,
		sql: `SELECT workers.setting AS workers, daemon.running, NOT daemon.running AND NOT daemon.visible AS unseen, NOT daemon.running AND daemon.visible AS gone
  FROM pg_catalog.pg_settings workers,
       (SELECT pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS visible,
               EXISTS (SELECT
                         FROM pg_catalog.pg_stat_activity a
                        WHERE a.datname = current_database() AND a.backend_type LIKE 'Citus Maintenance Daemon%') AS running) AS daemon
 WHERE workers.name = 'max_worker_processes'`,
		judge: []Finding{{
			ID: "citus_no_maintenance", Severity: SeverityError, when: "gone",
			What: "Citus's maintenance daemon does not run for this database: a two-phase COMMIT that is cut in the middle stays half done and keeps its locks, " +
				"so that calls of its identity hang, and nobody ends distributed deadlocks",
			Evidence: "max_worker_processes = {workers}, and there is no daemon",
			Fix:      "raise max_worker_processes in postgresql.conf, to one for each database with Citus beside those for logical replication and parallel queries, and restart the server",
		},
			unread("citus_maintenance", "unseen", "max_worker_processes = {workers}, and this role may not see whether the maintenance daemon runs", "grant the role pg_read_all_stats"),
			sound("citus_maintenance", "running", "the daemon runs"),
		},
	}}
}
