package doctor

import (
	"context"
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

// checkCitus looks at where an effect's tables lie. Whether the table itself is
// distributed is part of the schema's check.
func checkCitus(ctx context.Context, s *session) ([]Finding, error) {
	const id = "citus"
	var citus bool
	if err := s.read(ctx, "SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL", nil, &citus); err != nil {
		return nil, err
	}
	if !citus {
		return []Finding{sound(id, "no Citus")}, nil
	}
	var ours *string
	var others []string
	if err := s.read(ctx, otherGroupsSQL, []any{s.schema}, &ours, &others); err != nil {
		return nil, err
	}
	switch {
	case ours == nil:
		return []Finding{unreadable(id, "the table is not distributed", "see the findings of the schema")}, nil
	case len(others) == 0:
		return []Finding{sound(id, "every distributed table is co-located with "+*ours)}, nil
	}
	return []Finding{{
		ID: IDNotColocated, Severity: SeverityWarning,
		What: "distributed tables are not co-located with " + s.table() + ": an effect on one of them and its record lie on different nodes. " +
			"They are committed together by two-phase commit, slower, and visible on one node before the other; DoStatement cannot join them",
		Evidence: "not co-located: " + strings.Join(others, ", "),
		Fix:      "for tables that effects write to: distribute them by the same tenant and SELECT update_distributed_table_colocation('…', colocate_with => 'tool_dedup')",
	}}, nil
}
