package doctor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/doctor"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

// citusCluster fakes what is asked of Citus, as Citus 13 defines it: its catalogue
// of distributed tables, with one reference table in it, and a coordinator and two
// workers that answer queries. All three answer what this server does, but that
// the workers' settings are sound and the daemons run; worker is what differs on
// the second worker, a jsonb expression of its answer.
func citusCluster(worker string) string {
	sound := "answer"
	for path, value := range map[string]string{
		"session,fsync,value": `"on"`, "session,full_page_writes,value": `"on"`, "session,zero_damaged_pages,value": `"off"`,
		"session,ignore_checksum_failure,value": `"off"`, "session,synchronous_commit,value": `"on"`, "running": "true",
	} {
		sound = fmt.Sprintf("jsonb_set(%s, '{%s}', '%s', false)", sound, path, value)
	}
	return `
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
		DECLARE answer jsonb;
		BEGIN
			FOR n IN 1..3 LOOP
				nodeid := n;
				EXECUTE command INTO answer;
				success := true;
				IF nodeid > 1 OR answer ? 'running' THEN answer := ` + sound + `; END IF;
				IF nodeid = 3 THEN answer := ` + worker + `; END IF;
				success := answer IS NOT NULL;
				result := COALESCE(answer::text, 'connection refused');
				RETURN NEXT;
			END LOOP;
		END $$;`
}

// distributed adds the table to Citus's catalogue, and bookings in a group.
func distributed(group int) string {
	return fmt.Sprintf(`INSERT INTO pg_catalog.pg_dist_partition VALUES
		('tool_dedup', 'h', '{VAR :varno 1 :varattno 1 :vartype 25 :vartypmod -1 :varcollid 950 :varlevelsup 0 :location -1}', 7, 's'),
		('bookings', 'h', '{VAR :varno 1 :varattno 1}', %d, 's');`, group)
}

func citusScenarios() []scenario {
	const alike = "answer"
	set := func(name, value string) string {
		return citusCluster(fmt.Sprintf(`jsonb_set(answer, '{session,%s,value}', '"%s"', false)`, name, value)) + distributed(7)
	}
	ofMaintenance := func(changes string) string {
		return citusCluster(`CASE WHEN answer ? 'running' THEN answer || '`+changes+`' ELSE answer END`) + distributed(7)
	}
	return []scenario{
		{
			name:   "CitusNotDistributed",
			sql:    citusCluster(alike) + `INSERT INTO pg_catalog.pg_dist_partition VALUES ('bookings', 'h', '{VAR :varno 1 :varattno 1}', 7, 's')`,
			errors: []string{"citus_not_distributed"},
		},
		{
			name: "CitusPlainTables", sql: citusCluster(alike) + distributed(7) + `CREATE TABLE notes (text text)`,
			errors: []string{migrations.ProblemPlainTables},
		},
		{
			name:     "CitusNotColocated",
			sql:      citusCluster(alike) + distributed(8) + `UPDATE pg_catalog.pg_dist_partition SET colocationid = 9 WHERE logicalrelid = '"My log"'::regclass`,
			warnings: []string{doctor.IDNotColocated}, evidence: `not co-located: "My log", bookings`,
		},
		{
			name: "CitusColocatedIsFine", sql: citusCluster(alike) + distributed(7),
			evidence: "every distributed table is co-located with tool_dedup",
		},

		{
			name: "CitusWorkerWithSynchronousCommitOff", sql: set("synchronous_commit", "off"),
			warnings: []string{doctor.IDSynchronousCommitOff}, evidence: "on node worker-2:5433 synchronous_commit = off",
		},
		{
			name: "CitusWorkerWithFsyncOff", sql: set("fsync", "off"),
			errors: []string{doctor.IDFsyncOff}, evidence: "on node worker-2:5433 fsync = off",
		},
		{
			name: "CitusWorkerThatBelievesDamagedPages", sql: set("ignore_checksum_failure", "on"),
			errors: []string{doctor.IDIgnoreChecksumFailure}, evidence: "on node worker-2:5433 ignore_checksum_failure = on",
		},
		{
			name: "CitusWorkerThatIsNotReached", sql: citusCluster("NULL") + distributed(7),
			unknown: []string{"crash_safety", "synchronous_commit", "citus_maintenance"}, evidence: "node worker-2:5433: connection refused",
		},
		{
			name: "CitusWithoutMaintenance", sql: ofMaintenance(`{"running": false, "max_worker_processes": 1}`),
			errors: []string{doctor.IDNoMaintenance}, evidence: "on node worker-2:5433 max_worker_processes = 1, and there is no daemon",
		},
		{
			name: "CitusWhoseMaintenanceMayNotBeSeen", sql: ofMaintenance(`{"running": false, "visible": false}`),
			unknown: []string{"citus_maintenance"}, evidence: "may not see whether the maintenance daemon runs",
		},
		{
			name: "CitusThatCannotAskItsNodes", sql: citusCluster(alike) + distributed(7) + `DROP FUNCTION pg_catalog.run_command_on_all_nodes`,
			unknown: []string{"crash_safety", "synchronous_commit", "citus"}, evidence: "the other nodes of the cluster: ",
		},
	}
}

// Citus compares the types and collations of the columns that tables are
// distributed by.
func TestCitusColocationAdviceNamesTheCollation(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	exec(t, db.URL, citusCluster("answer")+distributed(8))
	for _, f := range examine(t, db.URL).Findings {
		if f.ID == doctor.IDNotColocated {
			require.Contains(t, f.Fix, `text COLLATE "C"`)
			return
		}
	}
	require.Fail(t, "not found")
}

// A fix for another node is no statement for this one.
func TestCitusFixNamesTheNode(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	exec(t, db.URL, citusCluster(`jsonb_set(jsonb_set(answer, '{stored}',
		'[{"line": "synchronous_commit=off", "for_role": false, "for_database": true}]', false), '{database}', '"db"', false)`)+distributed(7))
	for _, f := range examine(t, db.URL).Findings {
		if f.ID == doctor.IDSynchronousCommitOff && strings.Contains(f.Evidence, "worker-2") {
			require.Equal(t, "on node worker-2:5433: run: ALTER DATABASE db SET synchronous_commit = on", f.Fix)
			require.Contains(t, f.What, "and this is another")
			return
		}
	}
	require.Fail(t, "not found")
}
