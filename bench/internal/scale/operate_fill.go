package scale

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// What is asked about.
const (
	operatedSchema = "operated"
	operatedScope  = "acme"
	operatedTool   = "create_ticket"
)

// operatedSQL writes what stands beside the records: for each of two keys a broken record, a
// line of the audit that says so, and an operation that is parked, among others that are not;
// and what ten processes have counted of ten tools in the last hour, and its sums of 14 days.
const operatedSQL = `
UPDATE %[1]s.tool_dedup SET outcome = 'broken', result = NULL WHERE scope = '%[2]s' AND tool = '%[3]s' AND key = ANY (%[4]s);

INSERT INTO %[1]s.tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
SELECT created_at, 'ada', 'app', action, scope, tool, key, outcome, created_at, 'the effect ended its own transaction'
  FROM %[1]s.tool_dedup, unnest(ARRAY['reset', 'broken', 'reset']) AS action
 WHERE scope = '%[2]s' AND tool = '%[3]s' AND key = ANY (%[4]s);

INSERT INTO %[1]s.tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
SELECT '%[2]s', '%[3]s', 'op-' || n, CASE WHEN n %% 100 = 0 THEN 'parked' ELSE 'done' END, n, 1, true, ''::bytea, now(), now() - n * interval '1 second'
  FROM generate_series(1, 100 * cardinality(%[4]s)) AS n;

INSERT INTO %[1]s.tool_dedup_stat
SELECT now() - minute * interval '1 minute', 'instance-' || instance, 'tool-' || tool, outcome, 100, 1, 0
  FROM generate_series(1, 60) AS minute, generate_series(1, 10) AS instance, generate_series(1, 10) AS tool,
       unnest(ARRAY['executed', 'replayed', 'in_flight']) AS outcome
 UNION ALL
SELECT now() - quarter * interval '15 minutes', '', 'tool-' || tool, outcome, 15000, 150, 0
  FROM generate_series(5, 14 * 24 * 4) AS quarter, generate_series(1, 10) AS tool,
       unnest(ARRAY['executed', 'replayed', 'in_flight']) AS outcome;

VACUUM (ANALYZE) %[1]s.tool_dedup;
VACUUM (ANALYZE) %[1]s.tool_dedup_audit;
VACUUM (ANALYZE) %[1]s.tool_effect;
VACUUM (ANALYZE) %[1]s.tool_dedup_stat;
CHECKPOINT`

// operated writes what stands beside the records, and returns a key for each run. They are
// drawn at random, and so are as many others, whose records are broken.
func (t *tool) operated(ctx context.Context, o OperateOptions) ([]string, error) {
	sample := fmt.Sprintf("SELECT key FROM %s WHERE random() < $1 ORDER BY random() LIMIT $2", t.records)
	var count int64
	if err := t.pool.QueryRow(ctx, "SELECT count(*) FROM "+t.records).Scan(&count); err != nil {
		return nil, err
	}
	rows, _ := t.pool.Query(ctx, sample, 4*float64(o.Runs)/float64(count), 2*o.Runs)
	drawn, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	if len(drawn) < 2 {
		return nil, fmt.Errorf("%d of %d keys were drawn", len(drawn), count)
	}
	broken := "ARRAY['" + strings.Join(drawn[len(drawn)/2:], "', '") + "']" // keys of this package have no quotes
	for statement := range strings.SplitSeq(fmt.Sprintf(operatedSQL, pgx.Identifier{t.schema}.Sanitize(), operatedScope, operatedTool, broken), ";\n") {
		if _, err := t.pool.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	return slices.Clone(drawn[:len(drawn)/2]), nil
}
