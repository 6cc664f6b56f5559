package doctor

import (
	"context"
	"fmt"
	"strings"
)

// otherGroupsSQL lists the distributed tables that do not lie beside the table in
// schema $1: those distributed by hash, and those of one shard. Reference tables
// lie on every node.
const otherGroupsSQL = `
SELECT ours.logicalrelid::text,
       COALESCE((SELECT array_agg(d.logicalrelid::text ORDER BY d.logicalrelid::text)
                   FROM pg_catalog.pg_dist_partition d
                  WHERE d.colocationid <> ours.colocationid AND d.colocationid <> 0
                    AND d.partmethod IN ('h', 'n') AND d.repmodel <> 't'), '{}')
  FROM (SELECT) AS one
  LEFT JOIN pg_catalog.pg_dist_partition ours
    ON ours.logicalrelid = (SELECT c.oid
                              FROM pg_catalog.pg_class c
                              JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                             WHERE n.nspname = $1::text AND c.relname = 'tool_dedup')`

// checkCitus looks at where an effect's tables lie, and at what completes commits
// that span nodes. Whether the table itself is distributed is part of the schema's
// check.
func checkCitus(ctx context.Context, s *session) ([]Finding, error) {
	citus, err := s.hasCitus(ctx)
	if err != nil {
		return nil, err
	}
	if !citus {
		return []Finding{sound("citus", "no Citus")}, nil
	}
	found, err := checkColocation(ctx, s)
	if err != nil {
		return nil, err
	}
	maintenance, err := checkMaintenance(ctx, s)
	return append(found, maintenance...), err
}

func checkColocation(ctx context.Context, s *session) ([]Finding, error) {
	var ours *string
	var others []string
	if err := s.read(ctx, otherGroupsSQL, []any{s.Schema}, &ours, &others); err != nil {
		return nil, err
	}
	switch {
	case ours == nil:
		return nil, nil // it is not distributed, which the schema's findings say
	case len(others) == 0:
		return []Finding{sound("citus", "every distributed table is co-located with "+*ours)}, nil
	}
	return []Finding{{
		ID: IDNotColocated, Severity: SeverityWarning,
		What: "distributed tables are not co-located with " + s.Table() + ": an effect on one of them and its record lie on different nodes. " +
			"They are committed together by two-phase commit, slower, and visible on one node before the other; DoStatement cannot join them",
		Evidence: "not co-located: " + strings.Join(others, ", "),
		Fix: `for tables that effects write to: distribute them by a tenant column of the type of scope, text COLLATE "C", and SELECT update_distributed_table_colocation('…', colocate_with => 'tool_dedup'). ` +
			`Citus refuses that for every other type and collation, and to change them afterwards: SELECT undistribute_table('…'), ALTER TABLE … ALTER COLUMN … TYPE text COLLATE "C", and distribute it again`,
	}}, nil
}

// maintenance is what a node says about Citus's maintenance daemon.
type maintenance struct {
	Workers int  `json:"max_worker_processes"`
	Visible bool `json:"visible"` // the role may see background processes
	Running bool `json:"running"`
}

// The daemon is a background worker of each database. It is started by the first
// session that uses Citus there, if max_worker_processes leaves room for it.
const maintenanceSQL = `
SELECT json_build_object(
    'max_worker_processes', current_setting('max_worker_processes')::int,
    'visible', pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
    'running', EXISTS (
        SELECT
          FROM pg_catalog.pg_stat_activity a
         WHERE a.datname = current_database() AND a.backend_type LIKE 'Citus Maintenance Daemon%'))`

func checkMaintenance(ctx context.Context, s *session) ([]Finding, error) {
	const id = "citus_maintenance"
	nodes, err := s.askNodes(ctx, maintenanceSQL)
	if err != nil {
		return nil, err
	}
	var found []Finding
	var running []string
	for _, n := range nodes {
		var m maintenance
		err := n.decode(&m)
		evidence := fmt.Sprintf("on node %s max_worker_processes = %d", n.Name, m.Workers)
		switch {
		case err != nil:
			found = append(found, n.unreadable(id, err))
		case m.Running:
			running = append(running, n.Name)
		case !m.Visible:
			found = append(found, unreadable(id, evidence+", and this role may not see whether the maintenance daemon runs", "grant the role pg_read_all_stats, on every node"))
		default:
			found = append(found, Finding{
				ID: IDNoMaintenance, Severity: SeverityError,
				What: "Citus's maintenance daemon does not run for this database: a two-phase COMMIT that is cut in the middle stays half done and keeps its locks, " +
					"so that calls of its identity hang, and nobody ends distributed deadlocks",
				Evidence: evidence + ", and there is no daemon",
				Fix:      "on node " + n.Name + ": raise max_worker_processes in postgresql.conf, to one for each database with Citus beside those for logical replication and parallel queries, and restart the server",
			})
		}
	}
	if found == nil {
		found = append(found, sound(id, "the daemon runs on "+strings.Join(running, ", ")))
	}
	return found, nil
}
