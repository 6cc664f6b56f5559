package doctor_test

import (
	"fmt"
	"strings"
)

// citusCluster fakes the parts of Citus 13 that the doctor reads: the catalogue of distributed
// tables with one reference table, and a coordinator and two workers that answer queries. All three
// nodes answer as this server. They read settings and daemons from the schemas node and worker
// instead of the catalogues; there the workers' settings are sound and the daemons run. worker is
// SQL that changes the second worker's schema.
func citusCluster(worker string) string {
	sql := `
		CREATE TABLE bookings (tenant text); CREATE TABLE currencies (code text); CREATE TABLE "My log" (tenant text);
		SET allow_system_table_mods = on;
		CREATE TABLE pg_catalog.pg_dist_partition (
			logicalrelid   regclass NOT NULL,
			partmethod     "char" NOT NULL,
			partkey        text,
			colocationid   integer NOT NULL DEFAULT 0,
			repmodel       "char" NOT NULL,
			autoconverted  boolean NOT NULL DEFAULT false);
		INSERT INTO pg_catalog.pg_dist_partition VALUES ('currencies', 'n', NULL, 3, 't'), ('"My log"', 'n', NULL, 0, 's');
		CREATE TABLE pg_catalog.pg_dist_node (nodeid int, groupid int, nodename text, nodeport int);
		INSERT INTO pg_catalog.pg_dist_node VALUES (1, 0, 'coordinator', 5432), (2, 1, 'worker-1', 5432), (3, 2, 'worker-2', 5433);
		CREATE TABLE pg_catalog.pg_dist_local_group (groupid int);
		INSERT INTO pg_catalog.pg_dist_local_group VALUES (0);
		CREATE FUNCTION pg_catalog.relation_is_a_known_shard(regclass) RETURNS boolean LANGUAGE sql AS 'SELECT false';
		CREATE FUNCTION pg_catalog.run_command_on_all_nodes(
			command text, parallel boolean DEFAULT true, give_warning_for_connection_errors boolean DEFAULT false,
			OUT nodeid int, OUT success boolean, OUT result text) RETURNS SETOF record LANGUAGE plpgsql AS $$
		BEGIN
			FOR n IN 1..3 LOOP
				nodeid := n;
				BEGIN
					EXECUTE replace(command, 'pg_catalog.pg_', CASE n WHEN 3 THEN 'worker.pg_' ELSE 'node.pg_' END) INTO result;
					success := true;
				EXCEPTION WHEN invalid_schema_name OR undefined_table THEN
					success := false;
					result := 'connection refused';
				END;
				RETURN NEXT;
			END LOOP;
		END $$;`
	for _, schema := range []string{"node", "worker"} {
		sql += strings.ReplaceAll(`
		CREATE SCHEMA %;
		CREATE VIEW %.pg_settings AS
			SELECT name, source, vartype, CASE name WHEN 'fsync' THEN 'on' WHEN 'full_page_writes' THEN 'on' WHEN 'zero_damaged_pages' THEN 'off'
			       WHEN 'ignore_checksum_failure' THEN 'off' WHEN 'synchronous_commit' THEN 'on' ELSE setting END AS setting
			  FROM pg_settings;
		CREATE VIEW %.pg_db_role_setting AS SELECT * FROM pg_db_role_setting WHERE false;
		CREATE VIEW %.pg_roles AS SELECT oid, rolname FROM pg_roles;
		CREATE VIEW %.pg_database AS SELECT oid, datname FROM pg_database;
		CREATE VIEW %.pg_stat_activity AS SELECT current_database() AS datname, 'Citus Maintenance Daemon: 16384/10' AS backend_type;
		CREATE FUNCTION %.pg_has_role(name, name, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';`, "%", schema)
	}
	return sql + worker + ";"
}

// distributed adds the table to Citus's catalogue, and bookings in a group.
func distributed(group int) string {
	return fmt.Sprintf(`INSERT INTO pg_catalog.pg_dist_partition VALUES
		('tool_dedup', 'h', '{VAR :varno 1 :varattno 1 :vartype 25 :vartypmod -1 :varcollid 950 :varlevelsup 0 :location -1}', 7, 's'),
		('bookings', 'h', '{VAR :varno 1 :varattno 1}', %d, 's');`, group)
}

func citusScenarios() []scenario {
	const alike = ""
	setting := func(name, value string) string {
		return fmt.Sprintf(`CREATE OR REPLACE VIEW worker.pg_settings AS
			SELECT name, source, vartype, CASE name WHEN '%s' THEN '%s' ELSE setting END AS setting FROM node.pg_settings;`, name, value)
	}
	set := func(name, value string) string { return citusCluster(setting(name, value)) + distributed(7) }
	const noDaemon = `CREATE OR REPLACE VIEW worker.pg_stat_activity AS SELECT * FROM node.pg_stat_activity WHERE false;`
	return []scenario{
		{
			name:     "CitusNotColocated",
			sql:      citusCluster(alike) + distributed(8) + `UPDATE pg_catalog.pg_dist_partition SET colocationid = 9 WHERE logicalrelid = '"My log"'::regclass`,
			warnings: []string{"citus_not_colocated"}, evidence: `not co-located: "My log", bookings`,
			says: `text COLLATE "C"`, // Citus compares types and collations
		},
		{
			name: "CitusColocatedIsFine", sql: citusCluster(alike) + distributed(7),
			evidence: "every distributed table is co-located with tool_dedup",
		},

		{
			name: "CitusWorkerWithSynchronousCommitOff", sql: set("synchronous_commit", "off"),
			warnings: []string{"synchronous_commit_off"}, evidence: "on node worker-2:5433 synchronous_commit = off",
		},
		{
			// The fix names another node, so the test does not run it on this one.
			name: "CitusWorkerWhoseDatabaseHasSynchronousCommitOff",
			sql: citusCluster(`CREATE OR REPLACE VIEW worker.pg_db_role_setting AS
				SELECT oid AS setdatabase, 0::oid AS setrole, '{synchronous_commit=off}'::text[] COLLATE "C" AS setconfig FROM pg_database WHERE datname = current_database()`) + distributed(7),
			warnings: []string{"synchronous_commit_off"}, evidence: "on node worker-2:5433 synchronous_commit = off, set for database ",
			says: "and this is another\non node worker-2:5433: run: ALTER DATABASE ",
		},
		{
			name: "CitusWorkerWithFsyncOff", sql: set("fsync", "off"),
			errors: []string{"fsync_off"}, evidence: "on node worker-2:5433 fsync = off",
		},
		{
			name: "CitusWorkerThatBelievesDamagedPages", sql: set("ignore_checksum_failure", "on"),
			errors: []string{"ignore_checksum_failure_on"}, evidence: "on node worker-2:5433 ignore_checksum_failure = on",
		},
		{
			name: "CitusWorkerThatIsNotReached", sql: citusCluster(`DROP SCHEMA worker CASCADE`) + distributed(7),
			unknown: []string{"crash_safety", "synchronous_commit", "citus_maintenance"}, evidence: "node worker-2:5433: connection refused",
		},
		{
			name: "CitusWithoutMaintenance", sql: citusCluster(noDaemon+setting("max_worker_processes", "1")) + distributed(7),
			errors: []string{"citus_no_maintenance"}, evidence: "on node worker-2:5433 max_worker_processes = 1, and there is no daemon",
		},
		{
			name: "CitusWhoseMaintenanceMayNotBeSeen", sql: citusCluster(noDaemon+`CREATE OR REPLACE FUNCTION worker.pg_has_role(name, name, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'`) + distributed(7),
			unknown: []string{"citus_maintenance"}, evidence: "may not see whether the maintenance daemon runs",
		},
		{
			name: "CitusThatCannotAskItsNodes", sql: citusCluster(alike) + distributed(7) + `DROP FUNCTION pg_catalog.run_command_on_all_nodes`,
			unknown: []string{"crash_safety", "synchronous_commit", "citus_maintenance"}, evidence: "the other nodes of the cluster: ",
		},
	}
}
