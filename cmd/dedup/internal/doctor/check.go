package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/inspect"
)

// A check is one entry of the table of checks. For each row that it reads, it reports every
// judgement whose column is true. {column} in the texts of a judgement is replaced by the column's
// value.
type check struct {
	// id names the subject of the check.
	id string
	// ofTable says that there is nothing to look at without the table.
	ofTable bool
	// only is a condition. If it is false, the check reports otherwise, or nothing if that is
	// empty.
	only, otherwise string
	// on says which nodes of a Citus cluster are asked.
	on nodes
	// sql reads the rows. It may name target, what given has, and {dedup} and {effects} for the
	// tables. What is asked of nodes has {here}, true or false, and none of the others.
	sql string
	// look reads them where SQL does not do.
	look  func(ctx context.Context, s *session) ([]examiner.Row, error)
	judge []Finding
}

// nodes selects the nodes of a Citus cluster on which a check runs.
type nodes int

const (
	here nodes = iota
	// alsoOthers are this one by its own session, and the others.
	alsoOthers
	// byCitus are all of them, by Citus's own sessions.
	byCitus
)

// sound returns the judgement for a sound row.
func sound(id, when, evidence string) Finding {
	return Finding{ID: id, Severity: SeverityOK, when: when, Evidence: evidence}
}

// unread is the judgement of what nothing is known about.
func unread(id, when, evidence, fix string) Finding {
	return Finding{ID: id, Severity: SeverityUnknown, when: when, What: "not readable, so nothing is known about it", Evidence: evidence, Fix: fix}
}

// tryAgain is the fix for a check that failed with an error.
const tryAgain = "remove the cause and run `dedup doctor` again"

// checks returns the table of checks. The pooler comes first: if it runs no transactions, no other
// check can read anything.
func checks() []check {
	return slices.Concat([]check{pooler(), clientEncoding()}, schemaChecks(), citusChecks(), durabilityChecks(), []check{replication()}, upkeepChecks())
}

// examine looks at everything and returns the findings, worst first. It fails
// only when ctx ends.
func examine(ctx context.Context, s *session) (all []Finding, err error) {
	for _, c := range checks() {
		if c.ofTable && slices.ContainsFunc(all, isTableMissing) {
			continue
		}
		found, err := c.find(ctx, s)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if all = append(all, found...); err != nil {
			all = append(all, unread(c.id, "", err.Error(), tryAgain))
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return slices.Index(severities(), a.Severity) - slices.Index(severities(), b.Severity)
	})
	return all, nil
}

// isTableMissing reports whether the finding says that the table is missing.
func isTableMissing(f Finding) bool { return f.ID == "schema_missing" || f.ID == "table_missing" }

// find looks at one thing, on each node where it is one of nodes.
func (c *check) find(ctx context.Context, s *session) (found []Finding, err error) {
	if c.only != "" {
		var holds bool
		switch err := s.read(ctx, c.only, s.given(), &holds); {
		case err != nil:
			return nil, err
		case !holds && c.otherwise != "":
			return []Finding{sound(c.id, "", c.otherwise)}, nil
		case !holds:
			return nil, nil
		}
	}
	if c.on != byCitus {
		rows, err := c.rows(ctx, s)
		if err != nil {
			return nil, err
		}
		found = c.judged(rows)
	}
	if c.on == here {
		return found, nil
	}
	answers, err := s.askNodes(ctx, s.rowsSQL(c.sql, false))
	if err != nil {
		return found, errors.New("the other nodes of the cluster: " + err.Error())
	}
	for _, n := range answers {
		if !n.Here || c.on == byCitus {
			found = append(found, c.judgedOn(n)...)
		}
	}
	return found, nil
}

func (c *check) rows(ctx context.Context, s *session) (rows []examiner.Row, err error) {
	if c.look != nil {
		return c.look(ctx, s)
	}
	err = s.read(ctx, targetSQL+s.rowsSQL(c.sql, true), s.given(), &rows)
	return rows, err
}

// judged are the findings of rows.
func (c *check) judged(rows []examiner.Row) (found []Finding) {
	for _, row := range rows {
		for column, value := range row {
			if seconds, ok := value.(float64); ok { // how long ago something was
				row[column] = inspect.Lasting(time.Duration(seconds * float64(time.Second)))
			}
		}
		for _, j := range c.judge {
			if row[cmp.Or(j.when, j.ID)] == true {
				found = append(found, Finding{ID: row.Fill(j.ID), Severity: j.Severity, What: row.Fill(j.What), Evidence: row.Fill(j.Evidence), Fix: row.Fill(j.Fix)})
			}
		}
	}
	return found
}

// judgedOn returns the findings of one node. Evidence and Fix name the node.
func (c *check) judgedOn(n node) []Finding {
	var rows []examiner.Row
	err := errors.New(n.Result)
	if n.Success {
		err = json.Unmarshal([]byte(n.Result), &rows)
	}
	if err != nil {
		return []Finding{unread(c.id, "", "node "+n.Name+": "+err.Error(), "let the nodes of the cluster connect to each other as this role, and run `dedup doctor` again")}
	}
	found := c.judged(rows)
	for i := range found {
		f := &found[i]
		if f.Evidence = "on node " + n.Name + " " + f.Evidence; f.Fix != "" {
			f.Fix = "on node " + n.Name + ": " + f.Fix
		}
	}
	return found
}

// node is the answer of one node of a Citus cluster.
type node struct {
	Name    string `json:"name"`
	Here    bool   `json:"here"` // it is the one that is connected to
	Success bool   `json:"success"`
	Result  string `json:"result"` // the error, without success
}

// nodesSQL asks every node. A coordinator that is missing from Citus's metadata has no row in
// pg_dist_node; then Citus asks the coordinator alone.
const nodesSQL = `
SELECT COALESCE(json_agg(json_build_object(
           'name', COALESCE(n.nodename || ':' || n.nodeport, 'this node'),
           'here', n.groupid IS NULL OR n.groupid IN (SELECT groupid FROM pg_catalog.pg_dist_local_group),
           'success', r.success,
           'result', COALESCE(r.result, '')) ORDER BY n.nodename, n.nodeport), '[]')
  FROM pg_catalog.run_command_on_all_nodes(@query::text) r
  LEFT JOIN pg_catalog.pg_dist_node n ON n.nodeid = r.nodeid`

// askNodes runs a query that returns one JSON value on every node of a Citus cluster. Without Citus
// it returns no answers.
func (s *session) askNodes(ctx context.Context, query string) (answers []node, err error) {
	var citus bool
	if err := s.read(ctx, hasCitus, nil, &citus); err != nil || !citus {
		return nil, err
	}
	err = s.read(ctx, nodesSQL, pgx.NamedArgs{"query": query}, &answers)
	return answers, err
}

// hasCitus is the condition of a Citus cluster.
const hasCitus = "SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL"

// targetSQL is the table.
const targetSQL = `
WITH target AS (
    SELECT c.oid, format('%I.%I', n.nspname, c.relname) AS "table"
      FROM pg_catalog.pg_namespace n
      JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'tool_dedup'
     WHERE n.nspname = @schema::text
)
`

// given is what SQL can name of the command line and the session.
func (s *session) given() pgx.NamedArgs {
	return pgx.NamedArgs{"schema": s.Schema, "overdue": s.overdue, "encoding": s.encoding}
}

// rowsSQL is the SQL of a check as one JSON value.
func (s *session) rowsSQL(sql string, here bool) string {
	names := strings.NewReplacer("{here}", strconv.FormatBool(here), "{dedup}", s.Table(), "{effects}", pgx.Identifier{s.Schema, "tool_effect"}.Sanitize())
	return "SELECT COALESCE(json_agg(r), '[]') FROM (" + names.Replace(sql) + ") AS r"
}
