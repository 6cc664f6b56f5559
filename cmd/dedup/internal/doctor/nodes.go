package doctor

import (
	"context"
	"encoding/json"
	"errors"
)

// node is what a node of a Citus cluster answered to a query.
type node struct {
	Name    string `json:"name"`
	Here    bool   `json:"here"` // it is the one that is connected to
	Success bool   `json:"success"`
	Result  string `json:"result"` // the error, without success
}

// nodesSQL asks every node. A coordinator that is not in Citus's metadata is asked
// by itself only, and has no row of pg_dist_node.
const nodesSQL = `
SELECT COALESCE(json_agg(json_build_object(
           'name', COALESCE(n.nodename || ':' || n.nodeport, 'this node'),
           'here', n.groupid IS NULL OR n.groupid IN (SELECT groupid FROM pg_catalog.pg_dist_local_group),
           'success', r.success,
           'result', COALESCE(r.result, '')) ORDER BY n.nodename, n.nodeport), '[]')
  FROM pg_catalog.run_command_on_all_nodes($1::text) r
  LEFT JOIN pg_catalog.pg_dist_node n ON n.nodeid = r.nodeid`

// askNodes has every node of a Citus cluster answer a query of one JSON value. It
// returns nil where there is no Citus.
func (s *session) askNodes(ctx context.Context, query string) ([]node, error) {
	citus, err := s.hasCitus(ctx)
	if err != nil || !citus {
		return nil, err
	}
	var nodes []node
	err = s.read(ctx, nodesSQL, []any{query}, &nodes)
	return nodes, err
}

func (s *session) hasCitus(ctx context.Context) (citus bool, err error) {
	err = s.read(ctx, "SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL", nil, &citus)
	return citus, err
}

// decode decodes what the node answered.
func (n node) decode(target any) error {
	if !n.Success {
		return errors.New(n.Result)
	}
	return json.Unmarshal([]byte(n.Result), target)
}

// unreadable is the finding that a node could not be asked.
func (n node) unreadable(id string, err error) Finding {
	return unreadable(id, "node "+n.Name+": "+err.Error(), "let the nodes of the cluster connect to each other as this role, and run `dedup doctor` again")
}
